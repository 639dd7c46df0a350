//===- CudaPeers.cpp - Shards in the memory of other GPUs -----------------===//

#include "runtime/executor/CudaPeers.h"

#include <algorithm>

using namespace qwen;

namespace {
/// What a rank shows the others.
struct Shown {
  cudaIpcMemHandle_t handle;
  int64_t bytes;
  bool canShow;
};
} // namespace

StatusOr<std::unique_ptr<CudaPeers>> CudaPeers::open(Communicator &ranks,
                                                     std::span<std::byte> mine,
                                                     NcclCommunicator &nccl) {
  std::unique_ptr<CudaPeers> made(new CudaPeers(mine, nccl, ranks.size()));
  // On several machines every rank has some that are not on its own.
  for (int rank = 0; rank < ranks.size(); ++rank)
    if (!ranks.isLocal(rank))
      return made;
  QWEN_RETURN_IF_ERROR(made->openAll(ranks));
  if (made->missing.empty())
    QWEN_RETURN_IF_ERROR(made->tryCopies(ranks));
  if (!made->missing.empty())
    made->close();
  return made;
}

CudaPeers::~CudaPeers() { close(); }

void CudaPeers::close() {
  if (!cudaIsAbandoned)
    for (std::byte *base : bases)
      if (base && base != mine.data())
        (void)cudaIpcCloseMemHandle(base);
  std::fill(bases.begin(), bases.end(), nullptr);
}

Status CudaPeers::openAll(Communicator &ranks) {
  Shown shown{};
  shown.bytes = static_cast<int64_t>(mine.size());
  std::string fault;
  if (cudaError_t error = cudaIpcGetMemHandle(&shown.handle, mine.data())) {
    fault = fmt::format("GPU memory cannot be shared between processes: {}",
                        cudaGetErrorString(error));
    (void)cudaGetLastError(); // or a later call would return it
  }
  shown.canShow = fault.empty();
  std::vector<Shown> all(bases.size());
  QWEN_RETURN_IF_ERROR(ranks.allGather(&shown, all.data(), sizeof(shown)));
  for (size_t rank = 0; fault.empty() && rank < all.size(); ++rank) {
    if (all[rank].bytes != shown.bytes)
      return makeError(StatusCode::Internal,
                       "rank {} has shards of {} bytes, this one of {}", rank,
                       all[rank].bytes, shown.bytes);
    if (int(rank) == ranks.rank()) {
      bases[rank] = mine.data();
    } else if (all[rank].canShow) {
      void *base = nullptr;
      if (cudaError_t error = cudaIpcOpenMemHandle(
              &base, all[rank].handle, cudaIpcMemLazyEnablePeerAccess)) {
        fault = fmt::format("rank {} cannot read the GPU memory of rank {}: {}",
                            ranks.rank(), rank, cudaGetErrorString(error));
        (void)cudaGetLastError();
      } else {
        bases[rank] = static_cast<std::byte *>(base);
      }
    }
  }
  QWEN_ASSIGN_OR_RETURN(missing, ranks.firstText(fault));
  return okStatus();
}

/// Reads a number from each rank's memory that only it could have written. The
/// first bytes are zero before and after.
Status CudaPeers::tryCopies(Communicator &ranks) {
  int64_t count = ranks.size();
  QWEN_ASSIGN_OR_RETURN(tokens,
                        CudaArena::allocate((count + 1) * int64_t(sizeof(int)),
                                            "meeting points"));
  // The copy returns when the value is on its way, not when it is there.
  auto write = [&](int value) {
    cudaError_t error =
        cudaMemcpy(mine.data(), &value, sizeof(value), cudaMemcpyHostToDevice);
    if (error == cudaSuccess)
      error = cudaStreamSynchronize(nullptr);
    return cudaStatus(error, "cannot write device memory");
  };
  auto *found = reinterpret_cast<int *>(tokens.data());
  QWEN_RETURN_IF_ERROR(write(ranks.rank() + 1));
  QWEN_RETURN_IF_ERROR(ranks.barrier());
  std::vector<int> values(bases.size());
  QWEN_RETURN_IF_ERROR(allGather(mine.data(), found, sizeof(int), nullptr));
  cudaError_t read =
      cudaMemcpy(values.data(), found, values.size() * sizeof(int),
                 cudaMemcpyDeviceToHost);
  std::string fault;
  if (read != cudaSuccess)
    return cudaStatus(read, "cannot read the GPU memory of other ranks");
  for (size_t rank = 0; rank < values.size(); ++rank)
    if (values[rank] != int(rank) + 1)
      fault = fmt::format("rank {} reads other bytes from the GPU of rank {} "
                          "than it wrote",
                          ranks.rank(), rank);
  QWEN_RETURN_IF_ERROR(ranks.barrier());
  QWEN_RETURN_IF_ERROR(write(0));
  QWEN_ASSIGN_OR_RETURN(missing, ranks.firstText(fault));
  return okStatus();
}

bool CudaPeers::reaches(const void *data, int64_t bytes) const {
  auto *begin = static_cast<const std::byte *>(data);
  return bases[0] && begin >= mine.data() &&
         begin + bytes <= mine.data() + mine.size();
}

Status CudaPeers::allGather(const void *part, void *all, int64_t bytes,
                            cudaStream_t stream) const {
  auto offset = static_cast<const std::byte *>(part) - mine.data();
  size_t count = bases.size();
  size_t own = size_t(nccl.rank());
  // Each rank begins with another one, or all would read one GPU at a time.
  for (size_t k = 0; k < count; ++k) {
    size_t rank = (own + 1 + k) % count;
    QWEN_RETURN_IF_ERROR(cudaStatus(
        cudaMemcpyAsync(static_cast<std::byte *>(all) + int64_t(rank) * bytes,
                        bases[rank] + offset, static_cast<size_t>(bytes),
                        cudaMemcpyDeviceToDevice, stream),
        "cannot copy from another GPU"));
  }
  return okStatus();
}

Status CudaPeers::meet(cudaStream_t stream) const {
  auto *all = reinterpret_cast<int *>(tokens.data());
  return nccl.allGather(all + bases.size(), all, sizeof(int), stream);
}
