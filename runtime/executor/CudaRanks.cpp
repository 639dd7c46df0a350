//===- CudaRanks.cpp - A GPU among those of other ranks -------------------===//

#include "runtime/executor/CudaRanks.h"

#include <algorithm>
#include <sched.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace qwen;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// How long an abort may take.
static constexpr milliseconds abortLimit(5000);
/// What the watch needs at most to find that another rank's process ended. The
/// error of a connection may be seen before that.
static constexpr milliseconds watchDelay(2000);

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
  if (Status tried = made->tryConnection(streams); !tried.ok()) {
    (void)made->abandon(streams, [] {});
    return tried;
  }
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

/// One rank a device: NCCL needs it.
Status CudaRanks::checkDevices(const CudaDevice &device) {
  Place mine{};
  mine.uuid = device.uuid;
  copyText(mine.pci, device.pciAddress());
  std::array<char, 64> name{};
  (void)gethostname(name.data(), name.size() - 1);
  mine.machine = name;
  std::vector<Place> all(static_cast<size_t>(ranks.size()));
  QWEN_RETURN_IF_ERROR(ranks.allGather(&mine, all.data(), sizeof(mine)));
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (all[i].uuid == all[j].uuid)
        return makeError(
            StatusCode::FailedPrecondition,
            "ranks {} and {} have the same GPU, {} of '{}': start as many "
            "ranks on a machine as it has GPUs, without --device",
            j, i, all[i].pci.data(), all[i].machine.data());
  return okStatus();
}

/// One operation of either kind. The first one opens the connection, which a
/// capture is no place for.
Status CudaRanks::tryConnection(const CudaStreams &streams) {
  constexpr int64_t part = 1024;
  auto size = static_cast<int64_t>(ranks.size());
  auto elements = static_cast<size_t>(size * part);
  int64_t bytes = size * part * int64_t(sizeof(float));
  QWEN_ASSIGN_OR_RETURN(CudaArena mine, CudaArena::allocate(bytes, "a trial"));
  QWEN_ASSIGN_OR_RETURN(CudaArena all, CudaArena::allocate(bytes, "a trial"));
  auto *own = reinterpret_cast<float *>(mine.data()) + ranks.rank() * part;
  auto *gathered = reinterpret_cast<float *>(all.data());
  // Whole numbers: every order of adding gives the same sum.
  std::vector<float> values(elements), expected(elements);
  for (size_t i = 0; i < elements; ++i) {
    values[i] = float(i % 97);
    expected[i] = values[i] * float(size);
  }
  cudaStream_t stream = streams[1];
  QWEN_RETURN_IF_ERROR(cudaStatus(
      cudaMemcpyAsync(mine.data(), values.data(), size_t(bytes),
                      cudaMemcpyHostToDevice, stream),
      "cannot write device memory"));
  QWEN_RETURN_IF_ERROR(
      nccl->allGather(own, gathered, part * int64_t(sizeof(float)), stream));
  QWEN_RETURN_IF_ERROR(
      nccl->reduceScatter(gathered, gathered + ranks.rank() * part, part,
                          stream));
  auto idle = [&] { return streams.query(); };
  QWEN_RETURN_IF_ERROR(await(idle, "the first exchange between the GPUs"));
  size_t first = size_t(ranks.rank() * part);
  QWEN_RETURN_IF_ERROR(
      cudaStatus(cudaMemcpy(values.data(), gathered + first,
                            size_t(part) * sizeof(float),
                            cudaMemcpyDeviceToHost),
                 "cannot read device memory"));
  if (!std::equal(values.begin(), values.begin() + part,
                  expected.begin() + int64_t(first)))
    return makeError(StatusCode::Internal,
                     "NCCL {} does not bring the ranks' data together",
                     nccl::versionText(nccl->library().version));
  return okStatus();
}

Status CudaRanks::await(const std::function<cudaError_t()> &query,
                        std::string_view what) {
  ranks.note(Activity::Waiting);
  Status connection = okStatus();
  cudaError_t answer = poll(query, [&] {
    connection = nccl->asyncError();
    return connection.ok();
  });
  if (!connection.ok())
    std::this_thread::sleep_for(watchDelay);
  ranks.note(Activity::Other);
  QWEN_RETURN_IF_ERROR(connection.withContext(what));
  return cudaStatus(answer, what);
}

bool CudaRanks::abandon(const CudaStreams &streams,
                        const std::function<void()> &destroyGraphs) {
  Clock::time_point end = Clock::now() + abortLimit;
  nccl->startAbort();
  cudaError_t answer = poll([&] { return streams.query(); },
                            [&] { return Clock::now() < end; });
  if (answer == cudaErrorNotReady)
    return false;
  destroyGraphs();
  return nccl->finishAbort(abortLimit);
}
