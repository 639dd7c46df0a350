//===- CudaRanks.h - A GPU among those of other ranks ----------*- C++ -*-===//
//
// Brings the GPUs of the ranks together, and waits for this one in a way that
// ends when another rank is lost: kernels that exchange data wait for a lost
// rank for ever, and so would CUDA's own waiting.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_EXECUTOR_CUDARANKS_H
#define QWEN_RUNTIME_EXECUTOR_CUDARANKS_H

#include "runtime/collectives/NcclCommunicator.h"
#include "runtime/executor/CudaStreams.h"

#include <memory>

namespace qwen {

class CudaRanks {
public:
  /// Meets the other ranks and tries the connection. All ranks call it.
  /// FailedPrecondition where two ranks have one GPU, or without NCCL.
  static StatusOr<std::unique_ptr<CudaRanks>> join(Communicator &ranks,
                                                   const CudaDevice &device,
                                                   const CudaStreams &streams);

  NcclCommunicator &collectives() { return *nccl; }

  /// Asks until the answer is another one than cudaErrorNotReady; an error of
  /// the GPU or of a connection is returned. The loss of another rank ends the
  /// process meanwhile. They hear how far this one's GPU has come.
  Status await(const std::function<cudaError_t()> &query,
               std::string_view what);
  /// Runs of programs that were waited for, in their order.
  int64_t endedRuns() const { return ended; }
  /// One more was. This GPU has then come further than the operations in it.
  void noteRunEnd() {
    ++ended;
    noteArrivals();
  }

  /// The end: gives runs that are not over some seconds, unless one `failed`,
  /// then makes kernels that wait for other ranks return, and calls
  /// `destroyGraphs`. Needs no other rank, as nobody knows why this one ends.
  /// False where the GPU still works after that.
  bool leave(const CudaStreams &streams, bool failed,
             const std::function<void()> &destroyGraphs);

private:
  explicit CudaRanks(Communicator &ranks) : ranks(ranks) {}
  Status checkDevices(const CudaDevice &device);
  Status countArrivals();
  void noteArrivals() const;
  Status tryConnection(const CudaStreams &streams);
  Status exchange(const CudaStreams &streams, std::byte *mine, std::byte *all);

  Communicator &ranks;
  std::unique_ptr<NcclCommunicator> nccl;
  /// One number, which the GPU writes: operations with other ranks that it has
  /// come to.
  PinnedMemory arrivals;
  int64_t ended = 0;
};

} // namespace qwen

#endif // QWEN_RUNTIME_EXECUTOR_CUDARANKS_H
