//===- CudaPeers.h - Shards in the memory of other GPUs --------*- C++ -*-===//
//
// Ranks of one machine can read each other's GPUs. What they gather from memory
// that all have opened is copied by the GPUs' copy engines: NCCL's kernels
// would take multiprocessors from the products beside them.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_EXECUTOR_CUDAPEERS_H
#define QWEN_RUNTIME_EXECUTOR_CUDAPEERS_H

#include "runtime/collectives/NcclCommunicator.h"
#include "runtime/executor/CudaDevice.h"

#include <memory>
#include <vector>

namespace qwen {

class CudaPeers {
public:
  /// Bytes whose multiples are allocations of their own, which alone can be
  /// opened by other processes.
  static constexpr int64_t allocationUnit = int64_t(2) << 20;

  /// Opens the other ranks' counterparts of `mine`: an allocation of as many
  /// bytes on each, a multiple of `allocationUnit`. All ranks call it, with
  /// nothing running. Where the ranks are on several machines, or one cannot
  /// reach another one's, all get an object that reaches nothing.
  static StatusOr<std::unique_ptr<CudaPeers>>
  open(Communicator &ranks, std::span<std::byte> mine, NcclCommunicator &nccl);
  ~CudaPeers();
  CudaPeers(const CudaPeers &) = delete;

  /// Whether gathers of these bytes can be copies.
  bool reaches(const void *data, int64_t bytes) const;
  /// Why nothing is reached on one machine, one line; empty where it is.
  const std::string &reason() const { return missing; }

  /// As NcclCommunicator::allGather, of bytes that are reached. Does not wait
  /// for the other ranks: they must neither have to write `part` any more nor
  /// write it before a meet() that follows.
  Status allGather(const void *part, void *all, int64_t bytes,
                   cudaStream_t stream) const;
  /// The stream goes on when those of all ranks have come here.
  Status meet(cudaStream_t stream) const;

private:
  CudaPeers(std::span<std::byte> mine, NcclCommunicator &nccl, int size)
      : mine(mine), nccl(nccl), bases(static_cast<size_t>(size)) {}
  Status openAll(Communicator &ranks);
  Status tryCopies(Communicator &ranks);
  void close();

  std::span<std::byte> mine;
  NcclCommunicator &nccl;
  std::vector<std::byte *> bases; ///< by rank; this one's own too
  CudaArena tokens;               ///< what ranks gather to meet
  std::string missing;
};

} // namespace qwen

#endif // QWEN_RUNTIME_EXECUTOR_CUDAPEERS_H
