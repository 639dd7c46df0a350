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
};

/// Why the kernels cannot run these arguments, as part of one line ("chunk is
/// 32, the kernel has 64"), or an empty string. Looks at shapes, strides and
/// the alignment of addresses.
std::string unsupportedReason(const GatedDeltaArgs &args);
std::string unsupportedReason(const GatedDeltaGradArgs &args);

/// Device scratch; depends on shapes alone.
int64_t workspaceBytes(const GatedDeltaArgs &args);
int64_t workspaceBytes(const GatedDeltaGradArgs &args);

/// Enqueues the kernel; an error is one of the launch itself.
cudaError_t launch(const GatedDeltaArgs &args, const LaunchContext &context);
cudaError_t launch(const GatedDeltaGradArgs &args,
                   const LaunchContext &context);

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_KERNELS_H
