//===- KernelCosts.cpp - Cost and aliasing of kernel ops ------------------===//
//
// KernelOpInterface of every kernel. A multiply-add is two operations; exp,
// log, sin and cos count as one.
//
//===----------------------------------------------------------------------===//

#include "dialects/Kernel/Kernel.h"
#include "qwen/Plan/Workspace.h"

using namespace mlir;
using namespace qwen;
using namespace qwen::kernel;

//===----------------------------------------------------------------------===//
// FLOPs
//===----------------------------------------------------------------------===//

namespace {

int64_t flops(const GemmArgs &args) {
  return 2 * args.c.elements() * args.a.dim(args.transposeA ? 0 : 1);
}

int64_t flops(const EmbeddingArgs &) { return 0; }

int64_t flops(const EmbeddingGradArgs &args) { return args.dout.elements(); }

// Taps, then SiLU (a sigmoid and a product).
int64_t flops(const CausalConv1dArgs &args) {
  return args.x.elements() * (2 * args.weight.dim(2) + 5);
}

// The pre-activation again, the derivative of SiLU, then both gradients.
int64_t flops(const CausalConv1dGradArgs &args) {
  return args.x.elements() * (6 * args.weight.dim(2) + 9);
}

// The recurrence: S^T k, the rank-one update and S^T q, a multiply-add for each
// element of the state.
int64_t flops(const GatedDeltaArgs &args) {
  return 6 * args.v.elements() * args.q.dim(2);
}

int64_t flops(const GatedDeltaGradArgs &args) {
  return 12 * args.v.elements() * args.q.dim(2);
}

// The number of query-key pairs depends on the documents.
int64_t flops(const AttentionArgs &) { return 0; }
int64_t flops(const AttentionGradArgs &) { return 0; }

int64_t flops(const LinearCrossEntropyArgs &args) {
  return 2 * args.x.elements() * args.weight.dim(0);
}

// Logits, dx and dweight.
int64_t flops(const LinearCrossEntropyGradArgs &args) {
  return 6 * args.x.elements() * args.weight.dim(0);
}

// The angle, then cos or sin.
int64_t flops(const RopeAnglesArgs &args) { return 2 * args.angles.elements(); }

int64_t flops(const FillArgs &) { return 0; }
int64_t flops(const CopyArgs &) { return 0; }

int64_t flops(const GroupArgs &args) { return args.rows * args.flopsPerRow; }

int64_t flops(const GradNormArgs &args) {
  int64_t elements = 0;
  for (const ConstBuffer &grad : args.grads)
    elements += grad.elements();
  return 2 * elements;
}

// The operations of the update's four lines (see kernel.adamw), square root
// and divisions included.
int64_t flops(const AdamWArgs &args) {
  int64_t elements = 0;
  for (const Buffer &param : args.params)
    elements += param.elements();
  return (args.decay ? 15 : 14) * elements;
}

//===----------------------------------------------------------------------===//
// Aliasing
//===----------------------------------------------------------------------===//

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
  int64_t Name##Op::getFlops() { return flops(toArgs(*this)); }                \
  int64_t Name##Op::getWorkspaceBytes() {                                      \
    return cpuWorkspaceBytes(toArgs(*this));                                   \
  }                                                                            \
  bool Name##Op::accumulatesInto(OpOperand &operand) {                         \
    return accumulates(*this, operand);                                        \
  }                                                                            \
  bool Name##Op::canReuseInput(OpOperand &in, OpOperand &out) {                \
    return reusesInput(*this, in, out);                                        \
  }
QWEN_KERNELS(QWEN_DEFINE_INTERFACE)
#undef QWEN_DEFINE_INTERFACE
