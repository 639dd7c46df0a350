//===- CudaLaunches.h - The launches of a plan on a GPU --------*- C++ -*-===//
//
// Turns the steps of a plan into closures over device addresses. Libraries,
// generated code and address tables are loaded here, so that a launch only
// enqueues work.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_EXECUTOR_CUDALAUNCHES_H
#define QWEN_RUNTIME_EXECUTOR_CUDALAUNCHES_H

#include "runtime/executor/CudaDevice.h"
#include "runtime/kernels/cuda/Blas.h"
#include "runtime/kernels/cuda/Group.h"
#include "runtime/kernels/cuda/Kernels.h"
#include "runtime/plan/Plan.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace qwen {

/// A launch with everything resolved.
struct CudaLaunch {
  cudaError_t (*function)(const void *args,
                          const cuda::LaunchContext &context) = nullptr;
  std::shared_ptr<const void> args;
  cuda::LaunchContext context;
  std::string what; ///< "step 12 (gemm, 'layer 3')"

  cudaError_t enqueue() const { return function(args.get(), context); }
};

/// The launches of every program, and what they need beside the arenas.
class CudaLaunches {
public:
  /// Loads the libraries that the plan's kernels call and the generated code,
  /// on the current device.
  Status loadCode(const Plan &plan);
  /// Prepares every step. `address` tells where a buffer of the plan lies.
  Status prepare(const Plan &plan,
                 const std::function<std::byte *(uint32_t buffer)> &address,
                 cudaStream_t stream);

  const std::vector<CudaLaunch> &program(int index) const {
    return programs[static_cast<size_t>(index)];
  }
  /// One line about a choice of the plan that a library could not follow, or
  /// an empty string.
  std::string warning() const;

private:
  template <typename Args> Status prepareArgs(Args args, CudaLaunch &launch);

  cuda::GroupCode code;             ///< outlives the launches of its kernels
  std::unique_ptr<cuda::Blas> blas; ///< where a kernel has products
  CudaArena tables;                 ///< of all kernels over lists of tensors
  int64_t neededTableBytes = 0;
  size_t usedTableBytes = 0;
  std::vector<std::vector<CudaLaunch>> programs;
};

} // namespace qwen

#endif // QWEN_RUNTIME_EXECUTOR_CUDALAUNCHES_H
