//===- KernelBounds.h - Error bounds of single kernels ---------*- C++ -*-===//
//
// How far a kernel's results may lie from the exact ones, and from those of
// another implementation: for the self-check and for the parity tests. Derived
// from types and lengths alone (qwen/Support/Tolerance.h).
//
// Sums are relative to the magnitude of what is summed; operands are drawn from
// the ranges that operandRange names.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_SELFCHECK_KERNELBOUNDS_H
#define QWEN_RUNTIME_SELFCHECK_KERNELBOUNDS_H

#include "qwen/Support/Tolerance.h"

namespace qwen::bounds {

/// `longest` is the length of the longest document. Norm, k k^T, solution,
/// state, output.
inline double gatedDelta(DType storage, int64_t longest, int64_t keyDim,
                         int64_t valueDim) {
  return sumTolerance(storage, double(longest + keyDim + valueDim), 5);
}
/// Twice the forward's stages.
inline double gatedDeltaGrad(DType storage, int64_t longest, int64_t keyDim,
                             int64_t valueDim) {
  return 2 * gatedDelta(storage, longest, keyDim, valueDim);
}
/// Terms of a gate's gradient are products of numbers up to 1 that may cancel.
inline constexpr double gateGradientTerms = 1;

/// `group` query heads share a key head; `score` is the largest score, which
/// loses that many roundings in the exponential.
inline double attention(DType storage, int64_t longest, int64_t group,
                        int64_t dim, double score) {
  return sumTolerance(storage, double(longest * group + dim), 2) * score;
}
inline double attentionGrad(DType storage, int64_t longest, int64_t group,
                            int64_t dim, double score) {
  return 2 * attention(storage, longest, group, dim, score);
}
/// The stored output carries its rounding into sum(o do), which lies beside
/// terms of the size of the gradients of queries and keys.
inline double attentionStored(DType storage, int64_t dim) {
  return unitRoundoff(storage) * std::sqrt(double(dim));
}
inline constexpr double attentionGradientTerms = 1;

/// A sum over the taps, then SiLU.
inline double conv(DType storage, int64_t width) {
  return sumTolerance(storage, double(width), 2);
}
inline double convInputGrad(DType storage, int64_t width) {
  return sumTolerance(storage, double(width), 4);
}
inline double convWeightGrad(DType storage, int64_t tokens) {
  return sumTolerance(storage, double(tokens), 4);
}

/// Logits and sums of exponentials; then the products with their gradients.
inline double loss(DType storage, int64_t hidden, int64_t classes) {
  return sumTolerance(storage, double(hidden + classes), 2);
}
inline double lossGrad(DType storage, int64_t hidden, int64_t classes,
                       int64_t tokens) {
  return sumTolerance(storage, double(hidden + classes + tokens), 4);
}

//===----------------------------------------------------------------------===//
// Kernels with matrix units against the CPU's, in the root mean square sense
//===----------------------------------------------------------------------===//

/// A result passes at most eight roundings to the storage type.
inline double gatedDeltaOnMatrixUnits(DType storage) {
  return roundingTolerance(storage, 8);
}
/// Probabilities and the results of both sides are rounded; in the gradients
/// also those of the scores.
inline double attentionOnMatrixUnits(DType storage) {
  return roundingTolerance(storage, 3);
}
inline double attentionGradOnMatrixUnits(DType storage) {
  return roundingTolerance(storage, 4);
}
/// Scores and sums of exponentials are float32 sums.
inline double logSumExpOnMatrixUnits(int64_t longest, int64_t dim) {
  return unitRoundoff(DType::F32) * double(dim + longest);
}

/// Logits are rounded to the storage type, and a loss is their difference.
inline double lossOnMatrixUnits(DType storage, double largestLogit) {
  return unitRoundoff(storage) * std::sqrt(2 / 3.0) * largestLogit;
}
/// The rounding of logits, of their gradients, of the result.
inline double lossGradOnMatrixUnits(DType storage, double largestLogit) {
  return unitRoundoff(storage) *
         std::sqrt((largestLogit * largestLogit + 2) / 3);
}

} // namespace qwen::bounds

#endif // QWEN_RUNTIME_SELFCHECK_KERNELBOUNDS_H
