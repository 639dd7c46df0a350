//===- Arrivals.h - How far a stream has come ------------------*- C++ -*-===//
//
// For those that watch from the host whether a GPU gets on; no kernel of a
// plan.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_ARRIVALS_H
#define QWEN_RUNTIME_KERNELS_CUDA_ARRIVALS_H

#include <cstdint>

#include <cuda_runtime.h>

namespace qwen::cuda {

/// Enqueues one more of `count`, in pinned host memory, which nothing else
/// writes; an error is one of the launch itself.
cudaError_t countArrival(uint64_t *count, cudaStream_t stream);

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_ARRIVALS_H
