//===- GroupFunctions.cpp - One function for equal groups -----------------===//

#include "GroupFunctions.h"
#include "Passes.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace qwen;

/// A block's elements stay in a core's second-level cache, and there are enough
/// blocks for every core to be busy to the end.
static constexpr int64_t maxBlockElements = 64 * 1024;
/// With column sums every block costs a row of partial sums, so blocks are
/// larger: 32 rows keep that below a few percent of the traffic.
static constexpr int64_t minRowsWithColumnSums = 32;
static constexpr int64_t maxRows = 128;

int64_t qwen::chooseRowsPerBlock(ArrayRef<int64_t> domain, bool hasColumnSums) {
  int64_t columns = domain.back();
  int64_t rows = 1;
  for (int64_t size : domain.drop_back())
    rows *= size;
  int64_t least = hasColumnSums ? minRowsWithColumnSums : 1;
  int64_t block = std::clamp(maxBlockElements / columns, least, maxRows);
  // Whole tokens a block, where a token has several rows.
  if (domain.size() == 3 && domain[1] <= block)
    block -= block % domain[1];
  return std::min(block, rows);
}

/// Functions of the C library that f64 code calls: a group of that name would
/// be called in their place.
static constexpr StringLiteral libraryFunctions[] = {
    "acos",  "asin",  "atan", "cbrt",  "ceil",  "cos",   "cosh",  "erf",
    "erfc",  "exp",   "exp2", "fma",   "expm1", "fmod",  "floor", "log",
    "log10", "log1p", "log2", "round", "sin",   "sinh",  "sqrt",  "tan",
    "tanh",  "trunc", "pow",  "atan2", "acosh", "asinh", "atanh", "roundeven"};

static bool isConversion(Operation *op) {
  return isa<arith::ExtFOp, arith::TruncFOp, arith::ConstantOp, BroadcastOp>(
      op);
}

int64_t qwen::countFlopsPerRow(GroupOp group) {
  ArrayRef<int64_t> domain = group.getDomain();
  int64_t columns = domain.back(), flops = 0;
  for (Operation &op : group.getBody().front().without_terminator()) {
    if (isConversion(&op))
      continue;
    if (auto rope = dyn_cast<RopeOp>(op)) {
      // Two products and a sum for each rotated element.
      auto angles = cast<RankedTensorType>(rope.getAngles().getType());
      flops += 3 * angles.getShape().back();
      continue;
    }
    // Row values are computed once a row, all others once an element.
    Value counted = isa<ReduceSumOp>(op) ? op.getOperand(0) : op.getResult(0);
    auto type = cast<RankedTensorType>(counted.getType());
    flops += type.getShape() == domain ? columns : 1;
  }
  return flops;
}

SmallVector<int64_t> qwen::columnSums(GroupOp group) {
  SmallVector<int64_t> result;
  Operation *yield = group.getBody().front().getTerminator();
  for (auto [i, value] : llvm::enumerate(yield->getOperands())) {
    auto sum = value.getDefiningOp<ReduceSumOp>();
    if (!sum)
      continue;
    int64_t last = cast<RankedTensorType>(sum.getX().getType()).getRank() - 1;
    if (!llvm::is_contained(sum.getDims(), last))
      result.push_back(i);
  }
  return result;
}

std::string GroupFunctions::makeName(StringRef label) {
  std::string base = label.empty() ? "group" : label.str();
  std::string name = base;
  for (int i = 2; !names.insert(name).second; ++i)
    name = base + "_" + std::to_string(i);
  return name;
}

kernel::GroupFunctionOp GroupFunctions::get(GroupOp group, TypeRange inputs,
                                            TypeRange outputs) {
  if (names.empty()) {
    for (StringRef name : libraryFunctions)
      names.insert(name);
    for (Operation &op : module.getOps())
      if (auto symbol = dyn_cast<SymbolOpInterface>(op))
        names.insert(symbol.getName());
  }
  OpBuilder builder(module.getContext());
  // In order of first use, before the functions that call them.
  builder.setInsertionPoint(*module.getOps<func::FuncOp>().begin());
  auto typeArray = [&](TypeRange types) {
    SmallVector<Type> list(types);
    return builder.getTypeArrayAttr(list);
  };
  SmallVector<int64_t> sums = columnSums(group);
  auto function = kernel::GroupFunctionOp::create(
      builder, group.getLoc(), "group", group.getDomain(),
      chooseRowsPerBlock(group.getDomain(), !sums.empty()), typeArray(inputs),
      typeArray(outputs), sums);
  IRMapping map;
  group.getBody().cloneInto(&function.getBody(), map);

  std::string key;
  llvm::raw_string_ostream os(key);
  function->print(os, OpPrintingFlags().useLocalScope().printGenericOpForm());
  auto [it, isNew] = functions.try_emplace(key, function);
  if (!isNew) {
    function.erase();
    return it->second;
  }
  function.setSymName(makeName(group.getLabel().value_or("")));
  return function;
}
