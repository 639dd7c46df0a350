//===- NcclCommunicator.h - Collectives of GPUs ----------------*- C++ -*-===//
//
// What moves bytes between the GPUs of a run: operations on a stream, which may
// be captured into graphs. The ranks meet through the Communicator, which also
// watches that none is lost. One process has one GPU.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_COLLECTIVES_NCCLCOMMUNICATOR_H
#define QWEN_RUNTIME_COLLECTIVES_NCCLCOMMUNICATOR_H

#include "runtime/collectives/Communicator.h"
#include "runtime/collectives/Nccl.h"

#include <chrono>
#include <cstdint>

namespace qwen {

class NcclCommunicator {
public:
  /// Meets the other ranks of `ranks`, every one on its current device. All
  /// ranks call it.
  static StatusOr<std::unique_ptr<NcclCommunicator>>
  create(Communicator &ranks);
  /// After finishAbort().
  ~NcclCommunicator() = default;
  NcclCommunicator(const NcclCommunicator &) = delete;

  int rank() const { return ownRank; }
  const nccl::Library &library() const { return functions; }

  /// `arrive` enqueues something on the stream of every later operation, before
  /// it.
  void onArrival(std::function<Status(cudaStream_t)> arrive) {
    arrival = std::move(arrive);
  }
  /// `all`, of ranks * bytes, becomes the `mine` of the ranks.
  Status allGather(const void *mine, void *all, int64_t bytes,
                   cudaStream_t stream);
  /// `sum` becomes the sum over the ranks of elements
  /// [rank() * elements, (rank() + 1) * elements) of `all`; it may be those
  /// elements. Added in float32, in the order of NCCL's ring.
  Status reduceScatter(const float *all, float *sum, int64_t elements,
                       cudaStream_t stream);

  /// An error that an operation met since it was enqueued: a lost connection.
  Status asyncError() const;

  /// Ends it, whatever the other ranks do: running operations return with
  /// undefined results, and it is freed once every graph with captured ones is
  /// destroyed. Works in a thread of its own.
  void startAbort();
  /// Waits for that; false where it takes longer.
  bool finishAbort(std::chrono::milliseconds limit);

private:
  NcclCommunicator(nccl::Library functions, int rank)
      : functions(functions), ownRank(rank) {}

  struct Abort;
  nccl::Library functions;
  int ownRank;
  std::function<Status(cudaStream_t)> arrival = [](cudaStream_t) {
    return okStatus();
  };
  nccl::Comm *comm = nullptr;
  std::shared_ptr<Abort> aborting;
};

} // namespace qwen

#endif // QWEN_RUNTIME_COLLECTIVES_NCCLCOMMUNICATOR_H
