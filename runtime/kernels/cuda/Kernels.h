//===- Kernels.h - Launchers of the CUDA kernels ---------------*- C++ -*-===//
//
// One plain function a kernel. Arguments were checked (KernelChecks.h) and
// found supported (CudaKernels.h) when the plan was loaded; a launch only
// enqueues work on the stream, so it can be captured into a graph. Results are
// the same bits on every run.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_KERNELS_H
#define QWEN_RUNTIME_KERNELS_CUDA_KERNELS_H

#include "qwen/Plan/CudaKernels.h"

#include <cstddef>
#include <span>

#include <cuda_runtime.h>

namespace qwen {
class Status; // its header is not for nvcc
} // namespace qwen

namespace qwen::cuda {

class Blas;

/// A generated kernel (Group.h) and its launch geometry.
struct GroupKernel {
  cudaKernel_t function = nullptr;
  unsigned threads = 0, blocks = 0;
};

/// What a launch gets beside its arguments.
struct LaunchContext {
  cudaStream_t stream = nullptr;
  /// At least workspaceBytes(args) bytes of device memory, aligned to 256
  /// bytes; contents undefined.
  std::span<std::byte> workspace;
  /// What writeTable filled; for kernels over lists of tensors only.
  std::span<std::byte> table = {};
  /// For kernels with products (usesBlas): where they were prepared.
  const Blas *blas = nullptr;
  /// For generated kernels.
  GroupKernel group = {};
};

/// Prepares a kernel's products when a plan is loaded, for launches with the
/// same arguments, algorithms included.
Status prepare(const GemmArgs &args, Blas &blas);
Status prepare(const LinearCrossEntropyArgs &args, Blas &blas);
Status prepare(const LinearCrossEntropyGradArgs &args, Blas &blas);

/// Whether a kernel must be prepared.
template <typename Args>
inline constexpr bool usesBlas =
    requires(const Args &args, Blas &blas) { prepare(args, blas); };

/// Fills the table of a kernel over a list of tensors (tableBytes), before the
/// first launch and outside of graph capture; it stays.
cudaError_t writeTable(const GradNormArgs &args, std::span<std::byte> table);
cudaError_t writeTable(const GradNormLocalArgs &args,
                       std::span<std::byte> table);
cudaError_t writeTable(const AdamWArgs &args, std::span<std::byte> table);

/// Enqueues the kernel; an error is one of the launch itself.
cudaError_t launch(const GatedDeltaArgs &args, const LaunchContext &context);
cudaError_t launch(const GatedDeltaGradArgs &args,
                   const LaunchContext &context);
cudaError_t launch(const AttentionArgs &args, const LaunchContext &context);
cudaError_t launch(const AttentionGradArgs &args, const LaunchContext &context);
cudaError_t launch(const CausalConv1dArgs &args, const LaunchContext &context);
cudaError_t launch(const CausalConv1dGradArgs &args,
                   const LaunchContext &context);
cudaError_t launch(const EmbeddingArgs &args, const LaunchContext &context);
cudaError_t launch(const EmbeddingGradArgs &args, const LaunchContext &context);
cudaError_t launch(const EmbeddingShardArgs &args,
                   const LaunchContext &context);
cudaError_t launch(const EmbeddingGradShardArgs &args,
                   const LaunchContext &context);
cudaError_t launch(const RopeAnglesArgs &args, const LaunchContext &context);
cudaError_t launch(const FillArgs &args, const LaunchContext &context);
cudaError_t launch(const CopyArgs &args, const LaunchContext &context);
cudaError_t launch(const GemmArgs &args, const LaunchContext &context);
cudaError_t launch(const LinearCrossEntropyArgs &args,
                   const LaunchContext &context);
cudaError_t launch(const LinearCrossEntropyGradArgs &args,
                   const LaunchContext &context);
cudaError_t launch(const GroupArgs &args, const LaunchContext &context);
cudaError_t launch(const GradNormArgs &args, const LaunchContext &context);
cudaError_t launch(const AdamWArgs &args, const LaunchContext &context);
cudaError_t launch(const GradNormLocalArgs &args, const LaunchContext &context);
cudaError_t launch(const GradNormCombineArgs &args,
                   const LaunchContext &context);

/// The second half of a reduce_scatter, once the ranks have added: stores
/// `sums`, as many as the shard's elements, in the shard or adds them to it.
cudaError_t storeSums(const float *sums, const ReduceScatterArgs &args,
                      cudaStream_t stream);

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_KERNELS_H
