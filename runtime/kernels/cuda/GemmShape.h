//===- GemmShape.h - What a product's algorithm depends on -----*- C++ -*-===//
//
// The key of the tuning table, and the products that each kernel runs. Needs no
// CUDA.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_GEMMSHAPE_H
#define QWEN_RUNTIME_KERNELS_CUDA_GEMMSHAPE_H

#include "qwen/Plan/GemmAlgorithm.h"
#include "qwen/Plan/Kernels.h"

#include <compare>

namespace qwen::cuda {

/// Scratch that a product may use; NVIDIA recommends this size for Hopper.
inline constexpr int64_t productWorkspaceBytes = int64_t(32) << 20;

/// c [m, n] = op(a) [m, k] op(b) [k, n], or that added to what c holds or to
/// another matrix like c.
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
  bool transposeA = false, transposeB = false, adds = false;
  DType operands = DType::BF16; ///< of a and b
  DType result = DType::BF16;

  auto operator<=>(const GemmShape &) const = default;
  double flops() const { return 2.0 * double(m) * double(n) * double(k); }
};

/// "8192x5120x17408 nt bf16 f32 add", as in tuning tables: m, n, k; n or t of
/// a and b; their type; c's; "set" or "add".
std::string toString(const GemmShape &shape);

GemmShape gemmShape(const GemmArgs &args);

/// The shape that a product goes by in tuning tables. One that makes a gradient
/// (its result is wider than its operands) goes by the form that adds, whether
/// it does: all micro-batches of a step then use one algorithm, and the first
/// one, which overwrites, has the bits of one that adds to zeros.
GemmShape tunedShape(GemmShape shape);

/// How the loss cuts its tokens: blocks of `rows`, the last one may be shorter.
struct LossBlocks {
  int64_t tokens, hidden, vocabulary;
  int64_t rows;   ///< tokens of a block
  int64_t stride; ///< elements from one row of logits to the next

  LossBlocks(const BufferType &x, const BufferType &weight);
  /// Products of a whole block.
  GemmShape logits() const;
  GemmShape dx() const;
  /// Of the first block, if `accumulate` says whether it adds to dweight.
  GemmShape dweight(bool accumulate) const;
};

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_GEMMSHAPE_H
