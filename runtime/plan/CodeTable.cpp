//===- CodeTable.cpp - Generated kernels of a plan ------------------------===//
//
// Every number comes from outside.
//
//===----------------------------------------------------------------------===//

#include "runtime/plan/CodeTable.h"
#include "qwen/Plan/Scratch.h"
#include "qwen/Plan/Target.h"
#include "runtime/plan/ElfSymbols.h"
#include "runtime/plan/PlanVerifier.h"
#include "runtime/support/Json.h"

#include <algorithm>
#include <bit>
#include <vector>

using namespace qwen;

namespace {

Status checkRange(std::string_view what, uint64_t value, uint64_t least,
                  uint64_t most) {
  if (value < least || value > most)
    return dataLoss("{} is {}, expected {} to {}", what, value, least, most);
  return okStatus();
}

Status checkGeometry(const plan::CodeSymbol &symbol, TargetKind kind) {
  bool gpu = kind == TargetKind::Cuda;
  QWEN_RETURN_IF_ERROR(checkRange("threads", symbol.threads(), gpu ? 1 : 0,
                                  gpu ? maxBlockThreads : 0));
  QWEN_RETURN_IF_ERROR(checkRange("blocks", symbol.blocks(), gpu ? 1 : 0,
                                  gpu ? maxGridBlocks : 0));
  return checkRange("shared_bytes", symbol.shared_bytes(), 0,
                    gpu ? maxStaticSharedBytes : 0);
}

Status checkSymbol(const plan::CodeSymbol &symbol, TargetKind kind) {
  QWEN_RETURN_IF_ERROR(checkRange("rows", symbol.rows(), 1, planLimit));
  size_t operands = count(symbol.operands());
  QWEN_RETURN_IF_ERROR(
      checkRange("the number of operands", operands, 1, maxGroupOperands));
  if (reinterpret_cast<uintptr_t>(symbol.operands()->Data()) % 8 != 0)
    return dataLoss("the table of operands is not aligned");
  for (size_t i = 0; i < operands; ++i) {
    const plan::CodeOperand &operand = *symbol.operands()->Get(i);
    std::string name = fmt::format("operand {}", i);
    QWEN_RETURN_IF_ERROR(
        checkRange(name + ": bytes", operand.bytes(), 1, planLimit));
    // Buffers lie at multiples of 64 bytes.
    if (!std::has_single_bit(operand.alignment()) || operand.alignment() > 64)
      return dataLoss("{}: alignment is {}, expected a power of two up to 64",
                      name, operand.alignment());
  }
  return checkGeometry(symbol, kind);
}

StatusOr<std::unordered_set<std::string>> functionsOf(const plan::Code &code,
                                                      TargetKind kind) {
  auto bytes =
      std::as_bytes(std::span(code.object()->data(), code.object()->size()));
  return kind == TargetKind::Cuda ? cubinFunctions(bytes)
                                  : exportedFunctions(bytes);
}

} // namespace

StatusOr<CodeTable> CodeTable::create(const plan::Plan &plan) {
  CodeTable table;
  const plan::Code *code = plan.code();
  if (!code || !code->object())
    return table;
  if (code->target()->string_view() != plan.target()->string_view())
    return dataLoss("code for target '{}' in a plan for '{}'",
                    printable(code->target()->string_view()),
                    printable(plan.target()->string_view()));
  TargetKind kind = *targetKind(plan.target()->string_view());
  QWEN_ASSIGN_OR_RETURN(auto functions, functionsOf(*code, kind));
  for (size_t i = 0; i < count(code->symbols()); ++i) {
    const plan::CodeSymbol &symbol = *code->symbols()->Get(i);
    std::string_view name = symbol.name()->string_view();
    std::string context =
        fmt::format("code symbol {} '{}'", i, printable(name));
    if (name.empty() || !table.symbols.emplace(name, &symbol).second)
      return dataLoss("{}: the name is empty or used twice", context);
    if (!functions.contains(std::string(name)))
      return dataLoss("the code has no function '{}'", printable(name));
    QWEN_RETURN_IF_ERROR(checkSymbol(symbol, kind).withContext(context));
  }
  return table;
}

const plan::CodeSymbol *CodeTable::find(std::string_view name) const {
  auto found = symbols.find(name);
  return found == symbols.end() ? nullptr : found->second;
}

Status CodeTable::checkCall(const GroupArgs &args,
                            std::span<const int64_t> offsets) const {
  const plan::CodeSymbol *symbol = find(args.symbol);
  if (!symbol)
    return dataLoss("the code has no function '{}'", printable(args.symbol));
  std::string shown = printable(args.symbol);
  std::vector<BufferType> types(args.inputs.begin(), args.inputs.end());
  types.insert(types.end(), args.outputs.begin(), args.outputs.end());
  if (types.size() != symbol->operands()->size())
    return dataLoss("has {} operands, '{}' takes {}", types.size(), shown,
                    symbol->operands()->size());
  if (uint64_t(args.rows) != symbol->rows())
    return dataLoss("has {} rows, '{}' takes {}", args.rows, shown,
                    symbol->rows());
  for (size_t i = 0; i < types.size(); ++i) {
    const plan::CodeOperand &needed = *symbol->operands()->Get(i);
    uint64_t bytes = types[i].extent() * dtypeBytes(types[i].dtype);
    if (bytes != needed.bytes())
      return dataLoss("operand {} covers {} bytes, '{}' takes {}", i, bytes,
                      shown, needed.bytes());
    if (offsets[i] % needed.alignment() != 0)
      return dataLoss("operand {} lies at byte {}, '{}' needs a multiple of {}",
                      i, offsets[i], shown, needed.alignment());
  }
  const auto *sums = symbol->column_sums();
  if (!std::equal(args.columnSums.begin(), args.columnSums.end(),
                  sums ? sums->begin() : decltype(sums->begin())(),
                  sums ? sums->end() : decltype(sums->end())()))
    return dataLoss("its column sums are not those of '{}'", shown);
  Carver carver;
  GroupScratch scratch(carver, args);
  if (symbol->blocks() > 0 && !args.columnSums.empty() &&
      scratch.blocks != int64_t(symbol->blocks()))
    return dataLoss("has partial sums of {} blocks, '{}' runs {}",
                    scratch.blocks, shown, symbol->blocks());
  return okStatus();
}
