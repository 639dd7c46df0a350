//===- CudaDevice.h - The GPU that a plan runs on --------------*- C++ -*-===//
//
// Finds the GPU, and owners of what an executor takes from it: memory, pinned
// host memory, stream, events, graphs. Everything is given back when the object
// dies.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_EXECUTOR_CUDADEVICE_H
#define QWEN_RUNTIME_EXECUTOR_CUDADEVICE_H

#include "qwen/Support/Status.h"
#include "runtime/support/DeviceMemory.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include <cuda_runtime.h>

namespace qwen {

/// Success, or "<what>: <CUDA's text> (<CUDA's name>)".
Status cudaStatus(cudaError_t error, std::string_view what);

/// The GPU in use.
struct CudaDevice {
  int number = 0;
  std::string name;         ///< "NVIDIA H200"
  std::string architecture; ///< "sm_90"
  std::array<char, 16> uuid{};
  int driverVersion = 0; ///< of CUDA, as 13000
  int64_t totalBytes = 0;
  int64_t freeBytes = 0; ///< once the driver's context was there

  /// Makes device `number` this thread's current one; -1 means that of a rank
  /// by its number on the machine: ranks take the visible devices in turn.
  /// FailedPrecondition, one line, where there is no driver, none of this CUDA
  /// version, no such device, or one that cannot run code for `target`
  /// ("sm_90a").
  static StatusOr<CudaDevice> open(int number, int localRank,
                                   std::string_view target);
  /// "0000:18:00.0", its place on the PCI bus.
  std::string pciAddress() const;
};

/// Set where the device hangs and the process is about to end: giving something
/// back would wait for ever.
inline std::atomic<bool> cudaIsAbandoned = false;

/// Owns a CUDA object; `Free` gives it back.
template <typename T, auto Free> class CudaHandle {
public:
  CudaHandle() = default;
  CudaHandle(CudaHandle &&other) noexcept
      : held(std::exchange(other.held, T())) {}
  CudaHandle &operator=(CudaHandle &&other) noexcept {
    std::swap(held, other.held);
    return *this;
  }
  ~CudaHandle() {
    if (held && !cudaIsAbandoned)
      (void)Free(held);
  }
  T get() const { return held; }
  explicit operator bool() const { return held; }
  /// For functions that make one; whatever was held is given back first.
  T *receive() {
    *this = CudaHandle();
    return &held;
  }

private:
  T held = T();
};

using CudaStream = CudaHandle<cudaStream_t, cudaStreamDestroy>;
using CudaEvent = CudaHandle<cudaEvent_t, cudaEventDestroy>;
using CudaGraph = CudaHandle<cudaGraph_t, cudaGraphDestroy>;
using CudaGraphExec = CudaHandle<cudaGraphExec_t, cudaGraphExecDestroy>;

/// A range of device memory, or of pinned host memory.
template <auto Allocate, auto Free> class CudaMemoryRange {
public:
  /// ResourceExhausted where there is not so much. Zero bytes are legal.
  static StatusOr<CudaMemoryRange> allocate(int64_t bytes,
                                            std::string_view what) {
    CudaMemoryRange range;
    if (bytes == 0)
      return range;
    Status status =
        cudaStatus(Allocate(range.begin.receive(), static_cast<size_t>(bytes)),
                   fmt::format("cannot allocate {} bytes of {}", bytes, what));
    if (!status.ok())
      return status;
    range.length = static_cast<size_t>(bytes);
    return range;
  }
  std::byte *data() const { return static_cast<std::byte *>(begin.get()); }
  std::span<std::byte> bytes() const { return {data(), length}; }

private:
  CudaHandle<void *, Free> begin;
  size_t length = 0;
};

inline cudaError_t allocateDevice(void **address, size_t bytes) {
  return cudaMalloc(address, bytes);
}
inline cudaError_t allocatePinned(void **address, size_t bytes) {
  return cudaMallocHost(address, bytes);
}
using CudaArena = CudaMemoryRange<allocateDevice, cudaFree>;
using PinnedMemory = CudaMemoryRange<allocatePinned, cudaFreeHost>;

/// Device memory in the order of a stream, for which `await` waits.
class CudaMemory final : public DeviceMemory {
public:
  CudaMemory(cudaStream_t stream, std::function<Status()> await)
      : stream(stream), await(std::move(await)) {}
  bool isHost() const override { return false; }
  Status copyToHost(void *host, const void *device, int64_t bytes) override;
  Status copyToDevice(void *device, const void *host, int64_t bytes) override;
  Status zero(void *device, int64_t bytes) override;
  /// Pinned; allocated when it is first asked for. Empty where the system has
  /// none, which costs speed alone.
  std::span<std::byte> staging() override;

private:
  Status finish(cudaError_t error, std::string_view what);
  cudaStream_t stream;
  std::function<Status()> await;
  PinnedMemory staged;
};

} // namespace qwen

#endif // QWEN_RUNTIME_EXECUTOR_CUDADEVICE_H
