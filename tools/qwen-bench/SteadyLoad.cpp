//===- SteadyLoad.cpp - Times and energy under a sustained load -----------===//

#include "SteadyLoad.h"

#include "runtime/benchmark/KernelTiming.h"
#include "runtime/support/Print.h"

#include <chrono>
#include <cstdio>
#include <thread>

using namespace qwen;
using namespace qwen::bench;

static double now() {
  std::chrono::duration<double> since =
      std::chrono::steady_clock::now().time_since_epoch();
  return since.count();
}

StatusOr<SteadyLoad> SteadyLoad::create() {
  constexpr double secondsBetweenClocks = 0.05;
  char address[32];
  QWEN_RETURN_IF_ERROR(cudaStatus(
      cudaDeviceGetPCIBusId(address, sizeof(address), 0), "device 0"));
  std::optional<GpuMonitor> monitor;
  auto opened =
      GpuMonitor::open(address, "libnvidia-ml.so.1", secondsBetweenClocks);
  if (opened.ok())
    monitor.emplace(std::move(*opened));
  else
    print(stderr, "no energies: {}\n", opened.status().message());
  SteadyLoad load(std::move(monitor));
  QWEN_RETURN_IF_ERROR(cudaStatus(cudaEventCreate(&load.middle), "event"));
  QWEN_RETURN_IF_ERROR(cudaStatus(cudaEventCreate(&load.end), "event"));
  return load;
}

SteadyLoad::SteadyLoad(SteadyLoad &&other) noexcept
    : monitor(std::move(other.monitor)), energy(std::move(other.energy)),
      middle(std::exchange(other.middle, nullptr)),
      end(std::exchange(other.end, nullptr)) {}

SteadyLoad::~SteadyLoad() {
  for (cudaEvent_t event : {middle, end})
    if (event)
      cudaEventDestroy(event);
}

StatusOr<double> SteadyLoad::waitFor(cudaEvent_t event) {
  constexpr std::chrono::microseconds pause(500);
  while (true) {
    cudaError_t passed = cudaEventQuery(event);
    if (passed != cudaErrorNotReady)
      QWEN_RETURN_IF_ERROR(cudaStatus(passed, "sustained load"));
    if (monitor)
      if (std::optional<double> joules = monitor->joules())
        energy.add(now(), *joules);
    if (passed == cudaSuccess)
      return now();
    std::this_thread::sleep_for(pause);
  }
}

StatusOr<Stretch> SteadyLoad::run(int launches,
                                  const std::function<Status(int)> &launch) {
  int settling = launches / 2;
  for (int i = 0; i < launches; ++i) {
    if (i == settling)
      QWEN_RETURN_IF_ERROR(cudaStatus(cudaEventRecord(middle), "event"));
    QWEN_RETURN_IF_ERROR(launch(i));
  }
  QWEN_RETURN_IF_ERROR(cudaStatus(cudaEventRecord(end), "event"));
  Stretch stretch;
  stretch.launches = launches - settling;
  QWEN_ASSIGN_OR_RETURN(stretch.from, waitFor(middle));
  QWEN_ASSIGN_OR_RETURN(stretch.to, waitFor(end));
  float taken = 0;
  QWEN_RETURN_IF_ERROR(
      cudaStatus(cudaEventElapsedTime(&taken, middle, end), "event"));
  stretch.milliseconds = double(taken) / stretch.launches;
  return stretch;
}

std::optional<double> SteadyLoad::watts(const Stretch &stretch) const {
  std::optional<double> used = energy.between(stretch.from, stretch.to);
  if (!used || stretch.to <= stretch.from)
    return std::nullopt;
  return *used / (stretch.to - stretch.from);
}

std::optional<int> SteadyLoad::megahertz() const {
  return monitor ? monitor->latest().smClockMegahertz : std::nullopt;
}
