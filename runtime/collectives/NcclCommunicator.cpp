//===- NcclCommunicator.cpp - Collectives of GPUs -------------------------===//

#include "runtime/collectives/NcclCommunicator.h"

#include <condition_variable>
#include <mutex>
#include <thread>

using namespace qwen;

/// Shared with the thread, which may outlive the communicator.
struct NcclCommunicator::Abort {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
};

StatusOr<std::unique_ptr<NcclCommunicator>>
NcclCommunicator::create(Communicator &ranks) {
  nccl::setEnvironmentDefaults();
  StatusOr<nccl::Library> library = nccl::Library::load();
  // Nobody waits for a rank without the library.
  QWEN_RETURN_IF_ERROR(
      ranks.agree(library.ok() ? okStatus() : library.status()));
  std::unique_ptr<NcclCommunicator> made(
      new NcclCommunicator(*library, ranks.rank()));
  const nccl::Library &functions = made->functions;

  // The versions' protocols differ.
  std::vector<int> versions(static_cast<size_t>(ranks.size()));
  QWEN_RETURN_IF_ERROR(ranks.allGather(&functions.version, versions.data(),
                                       sizeof(functions.version)));
  for (size_t i = 1; i < versions.size(); ++i)
    if (versions[i] != versions[0])
      return makeError(
          StatusCode::FailedPrecondition, "rank 0 has NCCL {}, rank {} has {}",
          nccl::versionText(versions[0]), i, nccl::versionText(versions[i]));

  nccl::UniqueId id{};
  Status identified = okStatus();
  if (ranks.rank() == 0)
    identified = functions.check(functions.getUniqueId(&id),
                                 "cannot open NCCL's meeting point");
  QWEN_RETURN_IF_ERROR(ranks.agree(identified));
  QWEN_RETURN_IF_ERROR(ranks.broadcast(&id, sizeof(id), /*root=*/0));
  // Waits for all ranks.
  ranks.note(Activity::Waiting);
  Status met = functions.check(
      functions.commInitRank(&made->comm, ranks.size(), id, ranks.rank()),
      "cannot connect the GPUs");
  ranks.note(Activity::Other);
  QWEN_RETURN_IF_ERROR(met);
  return made;
}

Status NcclCommunicator::allGather(const void *mine, void *all, int64_t bytes,
                                   cudaStream_t stream) {
  QWEN_RETURN_IF_ERROR(arrival(stream));
  return functions.check(functions.allGather(mine, all,
                                             static_cast<size_t>(bytes),
                                             nccl::Type::Int8, comm, stream),
                         "all-gather", comm);
}

Status NcclCommunicator::reduceScatter(const float *all, float *sum,
                                       int64_t elements, cudaStream_t stream) {
  QWEN_RETURN_IF_ERROR(arrival(stream));
  return functions.check(
      functions.reduceScatter(all, sum, static_cast<size_t>(elements),
                              nccl::Type::Float32, nccl::Reduction::Sum, comm,
                              stream),
      "reduce-scatter", comm);
}

Status NcclCommunicator::asyncError() const {
  nccl::Result found = nccl::success;
  nccl::Result asked = functions.commGetAsyncError(comm, &found);
  return functions.check(asked != nccl::success ? asked : found,
                         "the GPUs' connection failed", comm);
}

void NcclCommunicator::startAbort() {
  aborting = std::make_shared<Abort>();
  std::thread([functions = functions, ended = std::exchange(comm, nullptr),
               shared = aborting] {
    (void)functions.commAbort(ended);
    std::lock_guard lock(shared->mutex);
    shared->done = true;
    shared->changed.notify_all();
  }).detach();
}

bool NcclCommunicator::finishAbort(std::chrono::milliseconds limit) {
  std::unique_lock lock(aborting->mutex);
  return aborting->changed.wait_for(lock, limit,
                                    [this] { return aborting->done; });
}
