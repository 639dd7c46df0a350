//===- Kernels.h - Launchers of the CUDA kernels ---------------*- C++ -*-===//
//
// One plain function a kernel. Arguments were checked (KernelChecks.h) and
// found supported (unsupportedReason) when the plan was loaded; a launch only
// enqueues work on the stream, so it can be captured into a graph. Results are
// the same bits on every run.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_KERNELS_H
#define QWEN_RUNTIME_KERNELS_CUDA_KERNELS_H

#include "qwen/Plan/Kernels.h"

#include <cstddef>
#include <span>

#include <cuda_runtime.h>

namespace qwen::cuda {

/// What a launch gets beside its arguments.
struct LaunchContext {
  cudaStream_t stream = nullptr;
  /// At least workspaceBytes(args) bytes of device memory, aligned to 256
  /// bytes; contents undefined.
  std::span<std::byte> workspace;
  /// What writeTable filled; for kernels over lists of tensors only.
  std::span<std::byte> table = {};
};

/// Why the kernels cannot run these arguments, as part of one line ("chunk is
/// 32, the kernel has 64"), or an empty string. Looks at shapes, strides and
/// the alignment of addresses.
std::string unsupportedReason(const GatedDeltaArgs &args);
std::string unsupportedReason(const GatedDeltaGradArgs &args);
std::string unsupportedReason(const AttentionArgs &args);
std::string unsupportedReason(const AttentionGradArgs &args);
std::string unsupportedReason(const CausalConv1dArgs &args);
std::string unsupportedReason(const CausalConv1dGradArgs &args);
std::string unsupportedReason(const EmbeddingArgs &args);
std::string unsupportedReason(const EmbeddingGradArgs &args);
std::string unsupportedReason(const RopeAnglesArgs &args);
std::string unsupportedReason(const FillArgs &args);
std::string unsupportedReason(const CopyArgs &args);
std::string unsupportedReason(const GradNormArgs &args);
std::string unsupportedReason(const AdamWArgs &args);

/// Device scratch; depends on shapes alone.
int64_t workspaceBytes(const GatedDeltaArgs &args);
int64_t workspaceBytes(const GatedDeltaGradArgs &args);
int64_t workspaceBytes(const AttentionArgs &args);
int64_t workspaceBytes(const AttentionGradArgs &args);
int64_t workspaceBytes(const CausalConv1dArgs &args);
int64_t workspaceBytes(const CausalConv1dGradArgs &args);
int64_t workspaceBytes(const EmbeddingArgs &args);
int64_t workspaceBytes(const EmbeddingGradArgs &args);
int64_t workspaceBytes(const RopeAnglesArgs &args);
int64_t workspaceBytes(const FillArgs &args);
int64_t workspaceBytes(const CopyArgs &args);
int64_t workspaceBytes(const GradNormArgs &args);
int64_t workspaceBytes(const AdamWArgs &args);

/// Device memory, aligned to 256 bytes, in which a kernel over a list of
/// tensors finds their addresses. It is written once, before the first launch
/// and outside of graph capture, and stays.
int64_t tableBytes(const GradNormArgs &args);
int64_t tableBytes(const AdamWArgs &args);
cudaError_t writeTable(const GradNormArgs &args, std::span<std::byte> table);
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
cudaError_t launch(const RopeAnglesArgs &args, const LaunchContext &context);
cudaError_t launch(const FillArgs &args, const LaunchContext &context);
cudaError_t launch(const CopyArgs &args, const LaunchContext &context);
cudaError_t launch(const GradNormArgs &args, const LaunchContext &context);
cudaError_t launch(const AdamWArgs &args, const LaunchContext &context);

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_KERNELS_H
