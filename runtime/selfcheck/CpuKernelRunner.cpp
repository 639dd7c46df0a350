//===- CpuKernelRunner.cpp - Single launches of the CPU kernels -----------===//

#include "qwen/Plan/KernelChecks.h"
#include "qwen/Plan/Scratch.h"
#include "qwen/Plan/Workspace.h"
#include "runtime/kernels/cpu/Kernels.h"
#include "runtime/selfcheck/KernelRunner.h"

#include <cstdlib>
#include <cstring>

using namespace qwen;

template <typename Args> static Status launchOnCpu(const Args &args) {
  QWEN_RETURN_IF_ERROR(checkKernel(args));
  size_t bytes = size_t(roundUp(cpuWorkspaceBytes(args), 64));
  std::unique_ptr<void, decltype(&std::free)> memory(
      std::aligned_alloc(64, std::max<size_t>(bytes, 64)), &std::free);
  if (!memory)
    return makeError(StatusCode::ResourceExhausted,
                     "cannot allocate {} bytes of workspace", bytes);
  // Every byte set is a NaN: a kernel must not read what it did not write.
  std::memset(memory.get(), 0xff, bytes);
  cpu::launch(args, {{static_cast<std::byte *>(memory.get()), bytes}});
  return okStatus();
}

namespace {
class CpuKernelRunner final : public KernelRunner {
public:
  const char *name() const override { return "CPU"; }
#define QWEN_DEFINE_LAUNCH(Name)                                               \
  Status launch(const Name##Args &args) override { return launchOnCpu(args); }
  QWEN_CHECKED_KERNELS(QWEN_DEFINE_LAUNCH)
#undef QWEN_DEFINE_LAUNCH
};
} // namespace

std::unique_ptr<KernelRunner> qwen::createCpuKernelRunner() {
  return std::make_unique<CpuKernelRunner>();
}
