//===- CudaDevice.cpp - The GPU that a plan runs on -----------------------===//
//
// Every way in which there is none says what is missing.
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/CudaDevice.h"

#include <algorithm>
#include <cstdlib>

using namespace qwen;

Status qwen::cudaStatus(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess)
    return okStatus();
  // Clears an error that is not sticky, so that the next call does not see it.
  (void)cudaGetLastError();
  return makeError(
      error == cudaErrorMemoryAllocation ? StatusCode::ResourceExhausted
                                         : StatusCode::Internal,
      "{}: {} ({})", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

/// "13.0".
static std::string versionText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// What a plan cannot have, in a line that begins with what it needs.
template <typename... Args>
static Status missing(std::string_view target,
                      fmt::format_string<Args...> format, Args &&...args) {
  return makeError(StatusCode::FailedPrecondition, "the plan is for {}; {}",
                   target, fmt::format(format, std::forward<Args>(args)...));
}

/// Text about the variable that hides devices, where it is set.
static std::string visibleDevices() {
  const char *value = std::getenv("CUDA_VISIBLE_DEVICES");
  return value ? fmt::format(" (CUDA_VISIBLE_DEVICES is '{}')", value) : "";
}

StatusOr<CudaDevice> CudaDevice::open(int number, int localRank,
                                      std::string_view target) {
  CudaDevice device;
  QWEN_RETURN_IF_ERROR(cudaStatus(cudaDriverGetVersion(&device.driverVersion),
                                  "cannot ask for the driver's version"));
  if (device.driverVersion == 0)
    return missing(target, "this machine has no NVIDIA driver");
  int count = 0;
  cudaError_t found = cudaGetDeviceCount(&count);
  if (found == cudaErrorInsufficientDriver)
    return missing(
        target, "the NVIDIA driver is of CUDA {}, this qwenrun needs {}",
        versionText(device.driverVersion), versionText(CUDART_VERSION));
  if (found == cudaErrorNoDevice || (found == cudaSuccess && count == 0))
    return missing(target, "this machine shows no GPU{}", visibleDevices());
  QWEN_RETURN_IF_ERROR(cudaStatus(found, "cannot list the GPUs"));
  if (number < 0)
    number = localRank % count;
  device.number = number;
  if (number >= count)
    return missing(target, "there is no GPU {}, only {}{}", number,
                   count == 1 ? "0" : fmt::format("0 to {}", count - 1),
                   visibleDevices());
  cudaDeviceProp properties;
  QWEN_RETURN_IF_ERROR(cudaStatus(
      cudaGetDeviceProperties(&properties, number),
      fmt::format("cannot ask for the properties of GPU {}", number)));
  device.name = properties.name;
  std::copy_n(properties.uuid.bytes, device.uuid.size(), device.uuid.begin());
  device.architecture =
      fmt::format("sm_{}{}", properties.major, properties.minor);
  // Code for sm_90a runs on compute capability 9.0 and nowhere else.
  if (target != device.architecture + "a")
    return missing(target, "GPU {} ({}) is {}", number, device.name,
                   device.architecture);
  QWEN_RETURN_IF_ERROR(
      cudaStatus(cudaSetDevice(number),
                 fmt::format("cannot use GPU {} ({})", number, device.name)));
  size_t free = 0, total = 0;
  QWEN_RETURN_IF_ERROR(cudaStatus(cudaMemGetInfo(&free, &total),
                                  "cannot ask for the free device memory"));
  device.freeBytes = static_cast<int64_t>(free);
  device.totalBytes = static_cast<int64_t>(total);
  return device;
}

std::string CudaDevice::pciAddress() const {
  std::array<char, 32> address{};
  cudaError_t error = cudaDeviceGetPCIBusId(
      address.data(), static_cast<int>(address.size()), number);
  return error == cudaSuccess ? address.data() : "";
}

Status CudaMemory::finish(cudaError_t error, std::string_view what) {
  QWEN_RETURN_IF_ERROR(cudaStatus(error, what));
  return await().withContext(what);
}

Status CudaMemory::copyToHost(void *host, const void *device, int64_t bytes) {
  // A copy to or from memory that is not pinned waits inside of CUDA.
  QWEN_RETURN_IF_ERROR(await());
  return finish(cudaMemcpyAsync(host, device, static_cast<size_t>(bytes),
                                cudaMemcpyDeviceToHost, stream),
                "cannot read device memory");
}

Status CudaMemory::copyToDevice(void *device, const void *host, int64_t bytes) {
  QWEN_RETURN_IF_ERROR(await());
  return finish(cudaMemcpyAsync(device, host, static_cast<size_t>(bytes),
                                cudaMemcpyHostToDevice, stream),
                "cannot write device memory");
}

Status CudaMemory::zero(void *device, int64_t bytes) {
  return finish(cudaMemsetAsync(device, 0, static_cast<size_t>(bytes), stream),
                "cannot clear device memory");
}

std::span<std::byte> CudaMemory::staging() {
  // Long enough that the start of a copy does not count.
  constexpr int64_t stagingBytes = int64_t(64) << 20;
  if (staged.bytes().empty())
    if (auto memory = PinnedMemory::allocate(stagingBytes, "staging memory");
        memory.ok())
      staged = std::move(memory).value();
  return staged.bytes();
}
