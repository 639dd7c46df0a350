//===- KernelCosts.cpp - Cost and aliasing of kernel ops ------------------===//
//
// KernelOpInterface of every kernel. FLOPs, bytes and scratch are the runtime's
// too and come from include/qwen/Plan.
//
//===----------------------------------------------------------------------===//

#include "qwen/Plan/KernelCosts.h"
#include "dialects/Kernel/Kernel.h"
#include "qwen/Plan/Workspace.h"

using namespace mlir;
using namespace qwen;
using namespace qwen::kernel;

//===----------------------------------------------------------------------===//
// Aliasing
//===----------------------------------------------------------------------===//

namespace {

/// Kernels with an `accumulate` flag add to their last operand.
template <typename KernelOp> bool accumulates(KernelOp op, OpOperand &operand) {
  if constexpr (requires {
                  { op.getAccumulate() } -> std::same_as<bool>;
                })
    return op.getAccumulate() &&
           operand.getOperandNumber() == op->getNumOperands() - 1;
  return false;
}

/// The number of `operand` among a group's outputs, -1 for an input.
int64_t outputNumber(GroupOp op, OpOperand &operand) {
  return static_cast<int64_t>(operand.getOperandNumber()) -
         static_cast<int64_t>(op.getInputs().size());
}

bool accumulates(GroupOp op, OpOperand &operand) {
  return llvm::is_contained(op.getAccumulate(), outputNumber(op, operand));
}

template <typename KernelOp>
bool reusesInput(KernelOp, OpOperand &, OpOperand &) {
  return false;
}

/// A group works row by row. Input and output of one type whose leading
/// dimensions are the rows lie in the same rows, and a row is read before it is
/// written; an input that repeats over rows, or a column sum, is not so.
bool reusesInput(GroupOp op, OpOperand &in, OpOperand &out) {
  int64_t inNumber = outputNumber(op, in), outNumber = outputNumber(op, out);
  if (inNumber >= 0 || outNumber < 0 ||
      in.get().getType() != out.get().getType() ||
      llvm::is_contained(op.getColumnSums(), outNumber) ||
      llvm::is_contained(op.getAccumulate(), outNumber))
    return false;
  auto type = cast<MemRefType>(out.get().getType());
  if (type.getRank() == 0)
    return false;
  int64_t rows = 1;
  for (int64_t size : type.getShape().drop_back())
    rows *= size;
  return rows == static_cast<int64_t>(op.getRows());
}

} // namespace

#define QWEN_DEFINE_INTERFACE(Name)                                            \
  int64_t Name##Op::getFlops() { return kernelFlops(toArgs(*this)); }          \
  int64_t Name##Op::getBytes() { return kernelBytes(toArgs(*this)); }          \
  int64_t Name##Op::getWorkspaceBytes(TargetKind target) {                     \
    return workspaceBytes(target, toArgs(*this));                              \
  }                                                                            \
  int64_t Name##Op::getTableBytes(TargetKind target) {                         \
    return target == TargetKind::Cuda ? cuda::tableBytes(toArgs(*this)) : 0;   \
  }                                                                            \
  std::string Name##Op::unsupportedReason(TargetKind target) {                 \
    return target == TargetKind::Cuda ? cuda::unsupportedReason(toArgs(*this)) \
                                      : std::string();                         \
  }                                                                            \
  bool Name##Op::accumulatesInto(OpOperand &operand) {                         \
    return accumulates(*this, operand);                                        \
  }                                                                            \
  bool Name##Op::canReuseInput(OpOperand &in, OpOperand &out) {                \
    return reusesInput(*this, in, out);                                        \
  }
QWEN_KERNELS(QWEN_DEFINE_INTERFACE)
#undef QWEN_DEFINE_INTERFACE
