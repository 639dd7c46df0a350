//===- OperandAlignment.cpp - Alignment of group operands -----------------===//

#include "OperandAlignment.h"

#include <numeric>

using namespace mlir;
using namespace qwen;

/// Of every buffer of a plan (Arena and Buffer in plan.fbs).
static constexpr int64_t bufferAlignment = 64;

OperandAlignment::OperandAlignment(ModuleOp module) {
  module.walk([&](Operation *op) {
    if (auto call = dyn_cast<kernel::GroupOp>(op))
      calls[call.getSymbol()].push_back(call);
    else if (auto call = dyn_cast<func::CallOp>(op))
      callers[call.getCallee()].push_back(call);
    else if (auto storage = dyn_cast<kernel::StorageOp>(op))
      for (Attribute name : storage.getParameters().getValue().drop_front())
        stacked.insert(name);
  });
}

SmallVector<int64_t> OperandAlignment::of(kernel::GroupFunctionOp group) {
  SmallVector<int64_t> result(group.getInputTypes().size() +
                                  group.getOutputTypes().size(),
                              bufferAlignment);
  for (kernel::GroupOp call : calls.lookup(group.getSymName()))
    for (auto [alignment, operand] :
         llvm::zip_equal(result, call->getOperands()))
      alignment = std::gcd(alignment, of(operand));
  return result;
}

int64_t OperandAlignment::of(Value buffer) {
  auto found = known.find(buffer);
  if (found != known.end())
    return found->second;
  int64_t alignment = compute(buffer);
  known[buffer] = alignment;
  return alignment;
}

int64_t OperandAlignment::compute(Value buffer) {
  int64_t element =
      cast<MemRefType>(buffer.getType()).getElementTypeBitWidth() / 8;
  if (auto view = buffer.getDefiningOp<kernel::ViewOp>())
    return std::gcd(of(view.getSource()), view.getOffset() * element);
  if (auto storage = buffer.getDefiningOp<kernel::StorageOp>())
    return stacked.contains(storage.getParameters()[0]) ? element
                                                        : bufferAlignment;
  auto argument = dyn_cast<BlockArgument>(buffer);
  if (!argument)
    return bufferAlignment; // an allocation
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  if (!function)
    return element;
  int64_t alignment = bufferAlignment;
  for (func::CallOp call : callers.lookup(function.getSymName()))
    alignment =
        std::gcd(alignment, of(call.getOperand(argument.getArgNumber())));
  return alignment;
}
