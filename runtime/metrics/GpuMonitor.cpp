//===- GpuMonitor.cpp - State of a GPU while it works ---------------------===//

#include "runtime/metrics/GpuMonitor.h"

#include <chrono>
#include <condition_variable>
#include <dlfcn.h>
#include <mutex>
#include <thread>

using namespace qwen;

namespace {

// The few declarations of nvml.h that are used; its ABI is stable and the
// header need not be there where this is built.
using NvmlDevice = struct nvmlDevice_st *;
struct NvmlMemory {
  unsigned long long total, free, used;
};
struct NvmlUtilization {
  unsigned int gpu, memory;
};
constexpr unsigned int nvmlTemperatureGpu = 0, nvmlClockSm = 1;

/// The library's functions.
struct Nvml {
  void *handle = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char *(*errorString)(int) = nullptr;
  int (*deviceByPciAddress)(const char *, NvmlDevice *) = nullptr;
  int (*memory)(NvmlDevice, NvmlMemory *) = nullptr;
  int (*utilization)(NvmlDevice, NvmlUtilization *) = nullptr;
  int (*temperature)(NvmlDevice, unsigned int, unsigned int *) = nullptr;
  int (*clock)(NvmlDevice, unsigned int, unsigned int *) = nullptr;
  int (*energy)(NvmlDevice, unsigned long long *) = nullptr; ///< millijoules

  Status load(const std::string &library);
};

} // namespace

Status Nvml::load(const std::string &library) {
  handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return makeError(StatusCode::NotFound, "{}", ::dlerror());
  std::string missing;
  auto find = [&](const char *name, auto &function) {
    void *symbol = ::dlsym(handle, name);
    function = reinterpret_cast<std::decay_t<decltype(function)>>(symbol);
    if (!symbol)
      missing = name;
  };
  find("nvmlInit_v2", init);
  find("nvmlShutdown", shutdown);
  find("nvmlErrorString", errorString);
  find("nvmlDeviceGetHandleByPciBusId_v2", deviceByPciAddress);
  find("nvmlDeviceGetMemoryInfo", memory);
  find("nvmlDeviceGetUtilizationRates", utilization);
  find("nvmlDeviceGetTemperature", temperature);
  find("nvmlDeviceGetClockInfo", clock);
  find("nvmlDeviceGetTotalEnergyConsumption", energy);
  if (!missing.empty())
    return makeError(StatusCode::NotFound, "{} has no {}", library, missing);
  return okStatus();
}

struct GpuMonitor::State {
  ~State();
  Status open(const std::string &library, const std::string &pciAddress);
  GpuSample ask() const;
  void watch();

  Nvml nvml;
  bool initialized = false;
  NvmlDevice device = nullptr;
  std::chrono::duration<double> pause{};
  std::thread thread;
  std::mutex mutex; ///< of what follows
  std::condition_variable stop;
  bool stopping = false;
  GpuSample sample;
};

Status GpuMonitor::State::open(const std::string &library,
                               const std::string &pciAddress) {
  QWEN_RETURN_IF_ERROR(nvml.load(library));
  if (int error = nvml.init())
    return makeError(StatusCode::FailedPrecondition, "{}: {}", library,
                     nvml.errorString(error));
  initialized = true;
  if (int error = nvml.deviceByPciAddress(pciAddress.c_str(), &device))
    return makeError(StatusCode::NotFound, "{}: GPU {}: {}", library,
                     pciAddress, nvml.errorString(error));
  return okStatus();
}

GpuMonitor::State::~State() {
  if (thread.joinable()) {
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    stop.notify_one();
    thread.join();
  }
  if (initialized)
    nvml.shutdown();
  if (nvml.handle)
    ::dlclose(nvml.handle);
}

GpuSample GpuMonitor::State::ask() const {
  GpuSample result;
  if (NvmlMemory memory{}; nvml.memory(device, &memory) == 0)
    result.memoryBytes = static_cast<int64_t>(memory.used);
  if (NvmlUtilization used{}; nvml.utilization(device, &used) == 0)
    result.utilization = static_cast<int>(used.gpu);
  unsigned int value = 0;
  if (nvml.temperature(device, nvmlTemperatureGpu, &value) == 0)
    result.temperature = static_cast<int>(value);
  if (nvml.clock(device, nvmlClockSm, &value) == 0)
    result.smClockMegahertz = static_cast<int>(value);
  return result;
}

void GpuMonitor::State::watch() {
  std::unique_lock lock(mutex);
  while (!stop.wait_for(lock, pause, [this] { return stopping; })) {
    lock.unlock();
    GpuSample answer = ask();
    lock.lock();
    sample = answer;
  }
}

StatusOr<GpuMonitor> GpuMonitor::open(const std::string &pciAddress,
                                      const std::string &library,
                                      double secondsBetween) {
  auto state = std::make_unique<State>();
  QWEN_RETURN_IF_ERROR(state->open(library, pciAddress));
  state->pause = std::chrono::duration<double>(secondsBetween);
  state->sample = state->ask();
  state->thread = std::thread([watched = state.get()] { watched->watch(); });
  return GpuMonitor(std::move(state));
}

GpuMonitor::GpuMonitor(std::unique_ptr<State> state)
    : state(std::move(state)) {}
GpuMonitor::GpuMonitor(GpuMonitor &&) noexcept = default;
GpuMonitor &GpuMonitor::operator=(GpuMonitor &&) noexcept = default;
GpuMonitor::~GpuMonitor() = default;

GpuSample GpuMonitor::latest() const {
  std::lock_guard lock(state->mutex);
  return state->sample;
}

std::optional<double> GpuMonitor::joules() const {
  unsigned long long millijoules = 0;
  if (state->nvml.energy(state->device, &millijoules) != 0)
    return std::nullopt;
  return double(millijoules) * 1e-3;
}
