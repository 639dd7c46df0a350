//===- Workspace.h - Scratch bytes of kernels ------------------*- C++ -*-===//
//
// The home of each kernel's scratch size. The memory planner reserves it, the
// executor hands it to the launcher. The size depends on shapes alone, never on
// the thread count or the documents of a batch.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_PLAN_WORKSPACE_H
#define QWEN_PLAN_WORKSPACE_H

#include "qwen/Plan/CudaKernels.h"
#include "qwen/Plan/Kernels.h"
#include "qwen/Plan/Target.h"

namespace qwen {

// int64_t cpuWorkspaceBytes(const GemmArgs &) and so on; 0 where a kernel needs
// none. The workspace is aligned to 64 bytes.
#define QWEN_DECLARE_WORKSPACE(Name)                                           \
  int64_t cpuWorkspaceBytes(const Name##Args &args);
QWEN_KERNELS(QWEN_DECLARE_WORKSPACE)
#undef QWEN_DECLARE_WORKSPACE

/// Scratch of a launch on a target.
template <typename Args>
int64_t workspaceBytes(TargetKind target, const Args &args) {
  return target == TargetKind::Cuda ? cuda::workspaceBytes(args)
                                    : cpuWorkspaceBytes(args);
}

} // namespace qwen

#endif // QWEN_PLAN_WORKSPACE_H
