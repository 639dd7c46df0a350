//===- Kernels.h - Launchers of the CPU kernels ----------------*- C++ -*-===//
//
// One plain function a kernel. Arguments were checked when the plan was loaded
// (KernelChecks.h); a launcher checks nothing and cannot fail. Each result is
// the same for every number of threads.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CPU_KERNELS_H
#define QWEN_RUNTIME_KERNELS_CPU_KERNELS_H

#include "qwen/Plan/Kernels.h"

#include <cstddef>
#include <span>

namespace qwen::cpu {

/// Entry point of a generated kernel; see kernel.group in KernelOps.td.
using GroupFunction = void (*)(void *const *operands, void *partials,
                               int64_t rowBegin, int64_t rowEnd);

/// What a launch gets beside its arguments.
struct LaunchContext {
  /// At least cpuWorkspaceBytes(args) bytes, 64-byte aligned; contents
  /// undefined.
  std::span<std::byte> workspace;
  /// Code of a Group launch, found by its symbol when the plan was loaded.
  GroupFunction group = nullptr;
};

// void launch(const GemmArgs &, const LaunchContext &) and so on. Collectives
// (isCollective) have none: they are the communicator's.
#define QWEN_DECLARE_LAUNCH(Name)                                              \
  void launch(const Name##Args &args, const LaunchContext &context);
QWEN_KERNELS(QWEN_DECLARE_LAUNCH)
#undef QWEN_DECLARE_LAUNCH

} // namespace qwen::cpu

#endif // QWEN_RUNTIME_KERNELS_CPU_KERNELS_H
