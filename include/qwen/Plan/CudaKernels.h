//===- CudaKernels.h - What the CUDA kernels take and need -----*- C++ -*-===//
//
// The part of the CUDA kernels' contract that the compiler needs too: which
// arguments have a kernel, and how much device memory a launch uses beside its
// operands. Needs no CUDA; implemented in runtime/kernels/cuda/*Support.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_PLAN_CUDAKERNELS_H
#define QWEN_PLAN_CUDAKERNELS_H

#include "qwen/Plan/Kernels.h"

#include <string>

namespace qwen::cuda {

/// Arenas, workspaces and tables start at multiples of this, as allocations of
/// CUDA do.
inline constexpr int64_t deviceAlignment = 256;

// std::string unsupportedReason(const GemmArgs &) and so on: why the kernels
// cannot run these arguments, as part of one line ("chunk is 32, expected 64"),
// or an empty string. Looks at shapes, strides and the alignment of addresses;
// operands without an address count as aligned.
//
// int64_t workspaceBytes(const GemmArgs &) and so on: device scratch of a
// launch, aligned to deviceAlignment; depends on shapes alone.
#define QWEN_DECLARE_CUDA_KERNEL(Name)                                         \
  std::string unsupportedReason(const Name##Args &args);                       \
  int64_t workspaceBytes(const Name##Args &args);
QWEN_KERNELS(QWEN_DECLARE_CUDA_KERNEL)
#undef QWEN_DECLARE_CUDA_KERNEL

/// Device memory, a multiple of deviceAlignment, in which a kernel over a list
/// of tensors finds their addresses: written once when a plan is loaded.
int64_t tableBytes(const GradNormArgs &args);
int64_t tableBytes(const GradNormLocalArgs &args);
/// 0 where the operands are shards of buckets: what is in them is known at
/// load, when a rank's slices have taken their place.
int64_t tableBytes(const AdamWArgs &args);
/// Other kernels have no table.
template <typename Args> int64_t tableBytes(const Args &) { return 0; }

} // namespace qwen::cuda

#endif // QWEN_PLAN_CUDAKERNELS_H
