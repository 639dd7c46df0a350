//===- CudaRanks.cpp - A GPU among those of other ranks -------------------===//

#include "runtime/executor/CudaRanks.h"
#include "runtime/kernels/cuda/Arrivals.h"

#include <algorithm>
#include <cstdlib>
#include <sched.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace qwen;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// How long runs may take at the end, kernels that are told to return, and NCCL
/// to end.
static constexpr milliseconds endLimit(5000);
/// What the watch needs at most to find that another rank's process ended. The
/// error of a connection may be seen before that.
static constexpr milliseconds watchDelay(2000);
/// Elements of a rank in the first exchange.
static constexpr int64_t trialElements = 1024;

/// Asks until the answer is another one than cudaErrorNotReady or `keepOn` says
/// no. Sleeps where it takes long.
static cudaError_t poll(const std::function<cudaError_t()> &query,
                        const std::function<bool()> &keepOn) {
  constexpr int patience = 200;
  for (int asked = 0;; ++asked) {
    cudaError_t answer = query();
    if (answer != cudaErrorNotReady || !keepOn())
      return answer;
    if (asked < patience)
      sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

StatusOr<std::unique_ptr<CudaRanks>>
CudaRanks::join(Communicator &ranks, const CudaDevice &device,
                const CudaStreams &streams) {
  std::unique_ptr<CudaRanks> made(new CudaRanks(ranks));
  QWEN_RETURN_IF_ERROR(made->checkDevices(device));
  QWEN_ASSIGN_OR_RETURN(made->nccl, NcclCommunicator::create(ranks));
  QWEN_RETURN_IF_ERROR(made->countArrivals());
  QWEN_RETURN_IF_ERROR(made->tryConnection(streams));
  return made;
}

namespace {
/// A rank's device, as the others see it.
struct Place {
  std::array<char, 16> uuid;
  std::array<char, 16> pci;
  std::array<char, 64> machine;
};

/// Cuts what does not fit.
template <size_t N> void copyText(std::array<char, N> &to, std::string from) {
  from.resize(N - 1);
  std::copy_n(from.c_str(), N, to.begin());
}
} // namespace

/// The name by which NCCL tells machines apart.
static std::string machineName() {
  if (const char *name = std::getenv("NCCL_HOSTID"); name && *name)
    return name;
  std::array<char, 64> name{};
  (void)gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// One rank a device: NCCL needs it, of each machine that it knows.
Status CudaRanks::checkDevices(const CudaDevice &device) {
  Place mine{};
  mine.uuid = device.uuid;
  copyText(mine.pci, device.pciAddress());
  copyText(mine.machine, machineName());
  std::vector<Place> all(static_cast<size_t>(ranks.size()));
  QWEN_RETURN_IF_ERROR(ranks.allGather(&mine, all.data(), sizeof(mine)));
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (all[i].uuid == all[j].uuid && all[i].machine == all[j].machine)
        return makeError(
            StatusCode::FailedPrecondition,
            "ranks {} and {} have the same GPU, {} of '{}': start as many "
            "ranks on a machine as it has GPUs, without --device",
            j, i, all[i].pci.data(), all[i].machine.data());
  return okStatus();
}

/// What both operations do to whole numbers, in device memory that the other
/// ranks' kernels use too.
Status CudaRanks::exchange(const CudaStreams &streams, std::byte *mine,
                           std::byte *all) {
  auto size = static_cast<int64_t>(ranks.size());
  int64_t first = ranks.rank() * trialElements;
  size_t bytes = sizeof(float) * trialElements;
  auto *gathered = reinterpret_cast<float *>(all);
  // Every order of adding gives the same sum.
  std::vector<float> values(trialElements), sums(trialElements);
  for (int64_t i = 0; i < trialElements; ++i)
    values[size_t(i)] = float((first + i) % 97);
  QWEN_RETURN_IF_ERROR(
      cudaStatus(cudaMemcpyAsync(mine, values.data(), bytes,
                                 cudaMemcpyHostToDevice, streams[1]),
                 "cannot write device memory"));
  QWEN_RETURN_IF_ERROR(
      nccl->allGather(mine, gathered, int64_t(bytes), streams[1]));
  QWEN_RETURN_IF_ERROR(nccl->reduceScatter(gathered, gathered + first,
                                           trialElements, streams[1]));
  QWEN_RETURN_IF_ERROR(await([&] { return streams.query(); },
                             "the first exchange between the GPUs"));
  QWEN_RETURN_IF_ERROR(cudaStatus(
      cudaMemcpy(sums.data(), gathered + first, bytes, cudaMemcpyDeviceToHost),
      "cannot read device memory"));
  for (float &value : values)
    value *= float(size);
  if (sums != values)
    return makeError(StatusCode::Internal,
                     "NCCL {} does not bring the ranks' data together",
                     nccl::versionText(nccl->library().version));
  return okStatus();
}

/// One operation of either kind. The first one opens the connection, which a
/// capture is no place for.
Status CudaRanks::tryConnection(const CudaStreams &streams) {
  int64_t bytes = trialElements * int64_t(sizeof(float));
  StatusOr<CudaArena> mine = CudaArena::allocate(bytes, "a trial"),
                      all =
                          CudaArena::allocate(bytes * ranks.size(), "a trial");
  Status tried = mine.ok() ? all.status() : mine.status();
  if (tried.ok())
    tried = exchange(streams, mine->data(), all->data());
  // Before the memory goes.
  if (!tried.ok() && !leave(streams, /*failed=*/true, [] {}))
    cudaIsAbandoned = true;
  return tried;
}

Status CudaRanks::countArrivals() {
  QWEN_ASSIGN_OR_RETURN(arrivals, PinnedMemory::allocate(
                                      sizeof(uint64_t), "a count of arrivals"));
  auto *count = reinterpret_cast<uint64_t *>(arrivals.data());
  *count = 0;
  nccl->onArrival([count](cudaStream_t stream) {
    return cudaStatus(cuda::countArrival(count, stream),
                      "cannot launch the kernel");
  });
  return okStatus();
}

/// A run that ended is behind all operations in it.
void CudaRanks::noteArrivals() const {
  ranks.noteArrivals(uint64_t(ended) +
                     *reinterpret_cast<volatile uint64_t *>(arrivals.data()));
}

Status CudaRanks::await(const std::function<cudaError_t()> &query,
                        std::string_view what) {
  ranks.note(Activity::Waiting);
  Status connection = okStatus();
  cudaError_t answer = poll(query, [&] {
    connection = nccl->asyncError();
    noteArrivals();
    return connection.ok();
  });
  if (!connection.ok())
    std::this_thread::sleep_for(watchDelay);
  noteArrivals();
  ranks.note(Activity::Other);
  QWEN_RETURN_IF_ERROR(connection.withContext(what));
  return cudaStatus(answer, what);
}

/// Whether nothing runs within the limit.
static bool isIdleSoon(const CudaStreams &streams) {
  Clock::time_point end = Clock::now() + endLimit;
  return poll([&] { return streams.query(); },
              [&] { return Clock::now() < end; }) != cudaErrorNotReady;
}

bool CudaRanks::leave(const CudaStreams &streams, bool failed,
                      const std::function<void()> &destroyGraphs) {
  if (!failed)
    (void)isIdleSoon(streams);
  nccl->startAbort();
  if (!isIdleSoon(streams))
    return false;
  // NCCL waits for the end of the graphs that it was captured into.
  destroyGraphs();
  return nccl->finishAbort(endLimit);
}
