//===- GpuMonitor.h - State of a GPU while it works ------------*- C++ -*-===//
//
// Memory, utilisation, temperature and clock of a GPU through NVIDIA's
// management library, which is part of the driver and is loaded where it is
// there. A thread of its own asks every few seconds: the driver may take
// milliseconds to answer, and nobody waits for it.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_METRICS_GPUMONITOR_H
#define QWEN_RUNTIME_METRICS_GPUMONITOR_H

#include "qwen/Support/Status.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace qwen {

/// One answer of the driver. What a GPU does not tell is missing.
struct GpuSample {
  std::optional<int64_t> memoryBytes;  ///< in use, by all programs
  std::optional<int> utilization;      ///< percent of the time with a kernel
  std::optional<int> temperature;      ///< degrees Celsius
  std::optional<int> smClockMegahertz; ///< of the multiprocessors
};

/// Asks about one GPU for as long as it lives.
class GpuMonitor {
public:
  /// The GPU at a PCI address as CUDA gives it ("0000:18:00.0"). One line where
  /// the library cannot be loaded or does not know the GPU.
  static StatusOr<GpuMonitor>
  open(const std::string &pciAddress,
       const std::string &library = "libnvidia-ml.so.1",
       double secondsBetween = 2);
  GpuMonitor(GpuMonitor &&) noexcept;
  GpuMonitor &operator=(GpuMonitor &&) noexcept;
  ~GpuMonitor();

  /// The latest answer.
  GpuSample latest() const;
  /// Energy that the GPU has used since its driver was loaded. Asks the driver,
  /// whose counter advances some ten times a second.
  std::optional<double> joules() const;

private:
  struct State;
  explicit GpuMonitor(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace qwen

#endif // QWEN_RUNTIME_METRICS_GPUMONITOR_H
