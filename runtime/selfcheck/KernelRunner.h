//===- KernelRunner.h - Single launches of kernels -------------*- C++ -*-===//
//
// The kernels of a target behind one interface: arguments and results lie in
// host memory, whatever the kernels need.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_SELFCHECK_KERNELRUNNER_H
#define QWEN_RUNTIME_SELFCHECK_KERNELRUNNER_H

#include "qwen/Plan/Kernels.h"
#include "qwen/Support/Status.h"

#include <memory>

/// Calls K(Name) for each kernel that the self-check looks at by itself.
#define QWEN_CHECKED_KERNELS(K)                                                \
  K(CausalConv1d)                                                              \
  K(CausalConv1dGrad)                                                          \
  K(GatedDelta)                                                                \
  K(GatedDeltaGrad)                                                            \
  K(Attention)                                                                 \
  K(AttentionGrad)                                                             \
  K(LinearCrossEntropy)                                                        \
  K(LinearCrossEntropyGrad)

namespace qwen {

/// Runs kernels one at a time.
class KernelRunner {
public:
  virtual ~KernelRunner() = default;
  /// "CPU" or "CUDA".
  virtual const char *name() const = 0;

  // virtual Status launch(const GatedDeltaArgs &) and so on: runs the kernel
  // and waits. FailedPrecondition where it does not take the arguments.
#define QWEN_DECLARE_LAUNCH(Name)                                              \
  virtual Status launch(const Name##Args &args) = 0;
  QWEN_CHECKED_KERNELS(QWEN_DECLARE_LAUNCH)
#undef QWEN_DECLARE_LAUNCH
};

/// The kernels of this process.
std::unique_ptr<KernelRunner> createCpuKernelRunner();
/// The kernels on a GPU; FailedPrecondition in a build without CUDA.
StatusOr<std::unique_ptr<KernelRunner>> createCudaKernelRunner();

} // namespace qwen

#endif // QWEN_RUNTIME_SELFCHECK_KERNELRUNNER_H
