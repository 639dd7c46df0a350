//===- LossRows.h - Losses and gradients of rows of logits -----*- C++ -*-===//
//
// What the loss does between its products.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_LOSSROWS_H
#define QWEN_RUNTIME_KERNELS_CUDA_LOSSROWS_H

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace qwen::cuda {

/// A block of tokens; pointers are those of its first one.
struct LossRows {
  const __nv_bfloat16 *x, *weight;
  int64_t strideX, strideWeight;
  int64_t hidden, vocabulary, rows;
  const int32_t *labels;
  int64_t ignoreIndex;
  const float *dnll; ///< null: no gradients are wanted
  float *nll;
  float *targets;        ///< logits of the labels
  __nv_bfloat16 *logits; ///< [rows, stride], aligned to 16 bytes
  int64_t stride;        ///< a multiple of 8

  /// A label outside the vocabulary counts as ignored, so that it is not read.
  __host__ __device__ bool isSupervised(int64_t label) const {
    return label != ignoreIndex && label >= 0 && label < vocabulary;
  }
};

/// targets = x weight^T of each token's label, in float32.
cudaError_t formTargets(const LossRows &rows, cudaStream_t stream);

/// Writes nll and, if dnll is there, replaces logits by their gradients.
cudaError_t formLosses(const LossRows &rows, cudaStream_t stream);

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_LOSSROWS_H
