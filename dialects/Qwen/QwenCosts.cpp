//===- QwenCosts.cpp - Cost of qwen ops -----------------------------------===//
//
// What each op must do at least. A multiply-add is two operations; exp, log,
// rsqrt, sin and cos count as one.
//
//===----------------------------------------------------------------------===//

#include "dialects/Qwen/Qwen.h"

using namespace mlir;
using namespace qwen;

int64_t qwen::tensorBytes(Type type) {
  auto shaped = cast<ShapedType>(type);
  return shaped.getNumElements() * ((shaped.getElementTypeBitWidth() + 7) / 8);
}

int64_t qwen::touchedBytes(Operation *op) {
  int64_t bytes = 0;
  for (Type type : op->getOperandTypes())
    bytes += tensorBytes(type);
  for (Type type : op->getResultTypes())
    bytes += tensorBytes(type);
  return bytes;
}

static int64_t elements(Value value) {
  return cast<ShapedType>(value.getType()).getNumElements();
}

static int64_t dim(Value value, int64_t i) {
  return cast<ShapedType>(value.getType()).getDimSize(i);
}

int64_t LinearOp::getFlops() { return 2 * elements(getY()) * dim(getX(), 1); }

int64_t LinearAddOp::getFlops() {
  return 2 * elements(getY()) * dim(getX(), 1) + elements(getY());
}

int64_t MatmulOp::getFlops() {
  return 2 * elements(getC()) * dim(getA(), getTransposeA() ? 0 : 1);
}

// negate, exp, add, divide
int64_t SigmoidOp::getFlops() { return 4 * elements(getX()); }
// exp, add, log
int64_t SoftplusOp::getFlops() { return 3 * elements(getX()); }
// square and add; scale by rsqrt; offset + w; multiply
int64_t RmsNormOp::getFlops() { return 5 * elements(getX()); }
int64_t BroadcastOp::getFlops() { return 0; }
int64_t ReduceSumOp::getFlops() { return elements(getX()); }
// angle, then cos or sin
int64_t RopeAnglesOp::getFlops() { return 2 * elements(getAngles()); }
// two products and a sum for each rotated element
int64_t RopeOp::getFlops() {
  return 3 * dim(getX(), 0) * dim(getX(), 1) * dim(getAngles(), 1);
}

int64_t ReshapeOp::getFlops() { return 0; }
int64_t SplitOp::getFlops() { return 0; }
int64_t ConcatOp::getFlops() { return 0; }

int64_t EmbeddingOp::getFlops() { return 0; }
int64_t EmbeddingGradOp::getFlops() { return elements(getDy()); }

// taps, then SiLU (sigmoid and a product)
int64_t CausalConv1dOp::getFlops() {
  return elements(getX()) * (2 * dim(getW(), 2) + 5);
}

// the pre-activation again, the derivative of SiLU, then both gradients
int64_t CausalConv1dGradOp::getFlops() {
  return elements(getX()) * (6 * dim(getW(), 2) + 9);
}

// The recurrence: S^T k, the rank-one update and S^T q, a multiply-add for each
// element of the state.
int64_t GatedDeltaOp::getFlops() {
  return 6 * elements(getV()) * dim(getQ(), 2);
}

int64_t GatedDeltaGradOp::getFlops() {
  return 12 * elements(getV()) * dim(getQ(), 2);
}

/// Query-key pairs of a causal document of all tokens.
static int64_t causalPairs(Value q) {
  return dim(q, 0) * (dim(q, 0) + 1) / 2 * dim(q, 1);
}

// q k^T and p v
int64_t AttentionOp::getFlops() {
  return 4 * causalPairs(getQ()) * dim(getQ(), 2);
}

// q k^T again, dv, dp, dq, dk
int64_t AttentionGradOp::getFlops() {
  return 10 * causalPairs(getQ()) * dim(getQ(), 2);
}

int64_t LinearCrossEntropyOp::getFlops() {
  return 2 * elements(getX()) * dim(getW(), 0);
}

// logits, dx, dw
int64_t LinearCrossEntropyGradOp::getFlops() {
  return 6 * elements(getX()) * dim(getW(), 0);
}
