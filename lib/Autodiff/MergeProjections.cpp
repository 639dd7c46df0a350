//===- MergeProjections.cpp - One GEMM for projections of one input -------===//

#include "lib/Autodiff/Passes.h"

#include "dialects/Qwen/Qwen.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

#include <set>

using namespace mlir;

namespace qwen {

#define GEN_PASS_DEF_MERGEPROJECTIONSPASS
#include "lib/Autodiff/Passes.h.inc"

namespace {

/// Where the values of parameters go: a function argument, or an op where they
/// are used otherwise.
using Home = std::pair<const void *, unsigned>;

/// All uses of parameters and all calls of a module.
class ParameterUses {
public:
  explicit ParameterUses(ModuleOp module) {
    module.walk(
        [&](func::CallOp call) { calls[call.getCallee()].push_back(call); });
    module.walk([&](GetParameterOp op) {
      for (auto name : op.getParameters().getAsRange<FlatSymbolRefAttr>())
        for (OpOperand &use : op->getUses())
          homes[name.getValue()].insert(homeOf(use));
    });
  }

  /// Calls of a function.
  ArrayRef<func::CallOp> callsOf(func::FuncOp func) {
    return calls[func.getSymName()];
  }

  /// True if every parameter of `op`, whose single use is `use`, goes nowhere
  /// else.
  bool isExclusive(GetParameterOp op) {
    return op->hasOneUse() &&
           llvm::all_of(op.getParameters().getAsRange<FlatSymbolRefAttr>(),
                        [&](FlatSymbolRefAttr name) {
                          return homes[name.getValue()].size() == 1;
                        });
  }

private:
  static Home homeOf(OpOperand &use) {
    auto call = dyn_cast<func::CallOp>(use.getOwner());
    const void *place =
        call ? call.getCalleeAttr().getAttr().getAsOpaquePointer()
             : static_cast<const void *>(use.getOwner());
    return {place, use.getOperandNumber()};
  }

  llvm::StringMap<SmallVector<func::CallOp>> calls;
  llvm::StringMap<std::set<Home>> homes;
};

/// The `get_parameter`s that give `weight` its value: one, or one at each call.
/// Empty where it is not a parameter everywhere, or is used otherwise too.
SmallVector<GetParameterOp> sourcesOf(Value weight, ParameterUses &uses) {
  SmallVector<GetParameterOp> sources;
  if (!weight.hasOneUse())
    return {};
  if (auto parameter = weight.getDefiningOp<GetParameterOp>()) {
    sources.push_back(parameter);
  } else if (auto argument = dyn_cast<BlockArgument>(weight)) {
    auto func = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    if (func.isPublic())
      return {};
    for (func::CallOp call : uses.callsOf(func))
      sources.push_back(call.getOperand(argument.getArgNumber())
                            .getDefiningOp<GetParameterOp>());
  }
  for (GetParameterOp source : sources)
    if (!source || !uses.isExclusive(source))
      return {};
  return sources;
}

/// Linears of one input that can become one, with their weights' sources.
struct Projections {
  SmallVector<LinearOp> linears;
  SmallVector<SmallVector<GetParameterOp>> sources;
};

/// The names of all sources at one call, in stacking order.
SmallVector<Attribute> stackedNames(const Projections &projections,
                                    unsigned call) {
  SmallVector<Attribute> names;
  for (const auto &sources : projections.sources)
    llvm::append_range(names, GetParameterOp(sources[call]).getParameters());
  return names;
}

/// True if every parameter gets the same neighbours at every call.
bool stacksAgree(const Projections &projections) {
  llvm::DenseMap<Attribute, SmallVector<Attribute>> stacks;
  for (unsigned i = 0; i < projections.sources.front().size(); ++i) {
    SmallVector<Attribute> names = stackedNames(projections, i);
    for (Attribute name : names)
      if (stacks.try_emplace(name, names).first->second != names)
        return false;
  }
  return true;
}

/// A read of all parameters, placed where `builder` is.
Value stackedParameter(OpBuilder &builder, const Projections &projections,
                       unsigned call, RankedTensorType type) {
  SmallVector<Location> locations;
  for (const auto &sources : projections.sources)
    locations.push_back(GetParameterOp(sources[call]).getLoc());
  return GetParameterOp::create(
      builder, builder.getFusedLoc(locations), type,
      builder.getArrayAttr(stackedNames(projections, call)));
}

/// Replaces the weight arguments of `func` by one of `type`, in the place of
/// the first, and adapts the calls.
Value stackArguments(func::FuncOp func, Projections &projections,
                     RankedTensorType type, ArrayRef<func::CallOp> calls) {
  auto numberOf = [](LinearOp linear) {
    return cast<BlockArgument>(linear.getW()).getArgNumber();
  };
  unsigned first = numberOf(projections.linears.front());
  llvm::BitVector others(func.getNumArguments());
  for (LinearOp linear : llvm::drop_begin(projections.linears))
    others.set(numberOf(linear));
  for (auto [i, call] : llvm::enumerate(calls)) {
    OpBuilder builder(call);
    call->setOperand(first, stackedParameter(builder, projections, i, type));
    func::CallOp(call)->eraseOperands(others);
  }
  BlockArgument stacked = func.getArgument(first);
  stacked.setType(type);
  return stacked;
}

void merge(func::FuncOp func, Projections &projections, ParameterUses &uses) {
  LinearOp first = projections.linears.front();
  auto weightType = cast<RankedTensorType>(first.getW().getType());
  int64_t rows = 0;
  SmallVector<Type> pieces;
  SmallVector<Location> locations;
  for (LinearOp linear : projections.linears) {
    rows += cast<RankedTensorType>(linear.getW().getType()).getDimSize(0);
    pieces.push_back(linear.getY().getType());
    locations.push_back(linear.getLoc());
  }
  auto stackType = RankedTensorType::get({rows, weightType.getDimSize(1)},
                                         weightType.getElementType());
  OpBuilder builder(first);
  bool isArgument = isa<BlockArgument>(first.getW());
  llvm::BitVector erased(func.getNumArguments());
  if (isArgument)
    for (LinearOp linear : llvm::drop_begin(projections.linears))
      erased.set(cast<BlockArgument>(linear.getW()).getArgNumber());
  Value stack =
      isArgument
          ? stackArguments(func, projections, stackType, uses.callsOf(func))
          : stackedParameter(builder, projections, 0, stackType);

  Location loc = builder.getFusedLoc(locations);
  auto xType = cast<RankedTensorType>(first.getX().getType());
  auto yType = RankedTensorType::get({xType.getDimSize(0), rows},
                                     xType.getElementType());
  auto linear = LinearOp::create(builder, loc, yType, first.getX(), stack);
  auto split = SplitOp::create(builder, loc, pieces, linear.getY());
  for (auto [old, piece] :
       llvm::zip_equal(projections.linears, split.getPieces())) {
    old.getY().replaceAllUsesWith(piece);
    old.erase();
  }
  for (auto &sources : projections.sources)
    for (GetParameterOp source : sources)
      source.erase();
  if (isArgument) {
    (void)func.eraseArguments(erased);
    func.setType(FunctionType::get(func.getContext(),
                                   func.getBody().getArgumentTypes(),
                                   func.getResultTypes()));
  }
}

/// Linears of one input in one function. Weights come from arguments or from
/// parameters read in the function, not both: their reads are in other places.
llvm::MapVector<std::pair<Value, unsigned>, Projections>
findProjections(func::FuncOp func, ParameterUses &uses) {
  llvm::MapVector<std::pair<Value, unsigned>, Projections> found;
  func.walk([&](LinearOp linear) {
    SmallVector<GetParameterOp> sources = sourcesOf(linear.getW(), uses);
    if (sources.empty())
      return;
    Projections &entry =
        found[{linear.getX(), isa<BlockArgument>(linear.getW()) ? 1u : 0u}];
    entry.linears.push_back(linear);
    entry.sources.push_back(std::move(sources));
  });
  return found;
}

struct MergeProjectionsPass
    : impl::MergeProjectionsPassBase<MergeProjectionsPass> {
  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.isExternal())
        continue;
      ParameterUses uses(getOperation());
      for (auto &[key, projections] : findProjections(func, uses)) {
        if (projections.linears.size() < 2 || !stacksAgree(projections))
          continue;
        merged += projections.linears.size() - 1;
        merge(func, projections, uses);
      }
    }
  }
};

} // namespace
} // namespace qwen
