//===- CudaLaunches.h - The launches of a plan on a GPU --------*- C++ -*-===//
//
// Turns the steps of a plan into closures over device addresses. Libraries,
// generated code and address tables are loaded here, so that a launch only
// enqueues work.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_EXECUTOR_CUDALAUNCHES_H
#define QWEN_RUNTIME_EXECUTOR_CUDALAUNCHES_H

#include "runtime/executor/CudaPeers.h"
#include "runtime/executor/CudaStreams.h"
#include "runtime/kernels/cuda/Blas.h"
#include "runtime/kernels/cuda/Group.h"
#include "runtime/kernels/cuda/Kernels.h"
#include "runtime/plan/Plan.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace qwen {

namespace plan {
struct Step;
} // namespace plan

/// A launch with everything resolved.
struct CudaLaunch {
  Status (*function)(const void *args, const cuda::LaunchContext &context,
                     NcclCommunicator *ranks) = nullptr;
  std::shared_ptr<const void> args;
  cuda::LaunchContext context;
  size_t stream = 0;
  std::vector<uint32_t> waits; ///< launches of the other stream
  CudaEvent done;              ///< where another launch waits for this one
  std::string what;            ///< "step 12 (gemm, 'layer 3')"
};

/// The launches of every program, and what they need beside the arenas.
class CudaLaunches {
public:
  /// What launches refer to.
  struct Places {
    /// Where a buffer of the plan lies.
    std::function<std::byte *(uint32_t buffer)> address;
    const CudaStreams *streams = nullptr;
    NcclCommunicator *ranks = nullptr; ///< null for one rank
    /// What gathers of shards are copied from; null: NCCL gathers all.
    const CudaPeers *peers = nullptr;
    /// Puts a rank's slices in the place of its shards.
    std::function<Status(AdamWArgs &)> expandBuckets;
  };

  /// Loads the libraries that the plan's kernels call and the generated code,
  /// on the current device.
  Status loadCode(const Plan &plan);
  /// Prepares every step.
  Status prepare(const Plan &plan, const Places &places);

  const std::vector<CudaLaunch> &program(int index) const {
    return programs[static_cast<size_t>(index)];
  }
  /// Whether a program has launches on stream 1.
  bool communicates(int program) const;
  /// Makes the launch's stream wait for the launches that it waits for.
  Status enqueueWaits(int program, size_t index) const;
  /// The launch itself, without waits.
  Status enqueueWork(int program, size_t index) const;
  /// Both, and what others wait for. Those before it must have been enqueued.
  Status enqueue(int program, size_t index) const;
  /// Remembers that the launch's stream got so far, for those that wait for it.
  Status enqueueDone(int program, size_t index) const;

  /// One line about a choice of the plan that a library could not follow, or
  /// an empty string.
  std::string warning() const;

private:
  Status allocateTables(const Plan &plan, const Places &places);
  Status prepareWaits(uint32_t program, const plan::Step &step,
                      CudaLaunch &launch);
  template <typename Args> Status prepareArgs(Args args, CudaLaunch &launch);
  void copyGathers(const Plan &plan, const CudaPeers &peers);

  NcclCommunicator *ranks = nullptr;
  const CudaStreams *streams = nullptr;
  cuda::GroupCode code;             ///< outlives the launches of its kernels
  std::unique_ptr<cuda::Blas> blas; ///< where a kernel has products
  CudaArena tables;                 ///< of all kernels over lists of tensors
  size_t usedTableBytes = 0;
  std::vector<std::vector<CudaLaunch>> programs;
};

} // namespace qwen

#endif // QWEN_RUNTIME_EXECUTOR_CUDALAUNCHES_H
