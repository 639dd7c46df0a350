//===- GroupSums.h - Column sums of generated kernels ----------*- C++ -*-===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_GROUPSUMS_H
#define QWEN_RUNTIME_KERNELS_CUDA_GROUPSUMS_H

#include <cstdint>
#include <span>

#include <cuda_runtime.h>

namespace qwen::cuda {

/// Sums of columns over the rows of each block.
struct PartialSums {
  const float *partials; ///< of the first block
  float *out;
  int64_t columns;
  bool accumulate; ///< to what `out` holds
};

/// Enqueues the sum over `blocks` blocks, whose sums are `stride` floats apart,
/// in an order that depends on their number alone.
cudaError_t addPartialSums(std::span<const PartialSums> sums, int64_t blocks,
                           int64_t stride, cudaStream_t stream);

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_GROUPSUMS_H
