//===- SteadyLoad.h - Times and energy under a sustained load --*- C++ -*-===//
//
// Work that is enqueued for so long that the card's power limit sets its speed.
// Short bursts run at clocks that no training step sees.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TOOLS_QWEN_BENCH_STEADYLOAD_H
#define QWEN_TOOLS_QWEN_BENCH_STEADYLOAD_H

#include "qwen/Support/Status.h"
#include "runtime/benchmark/Sustained.h"
#include "runtime/metrics/GpuMonitor.h"

#include <cuda_runtime.h>
#include <functional>

namespace qwen::bench {

/// Launches back to back. The last half counts: the first brings the card to
/// the state that this work holds it in.
struct Stretch {
  double milliseconds = 0; ///< of one launch
  int launches = 0;        ///< of the half that counts
  double from = 0, to = 0; ///< seconds, when that half ran
};

class SteadyLoad {
public:
  static StatusOr<SteadyLoad> create();
  SteadyLoad(SteadyLoad &&other) noexcept;
  SteadyLoad &operator=(SteadyLoad &&) = delete;
  ~SteadyLoad();

  /// Enqueues launch(0), launch(1), ... on stream 0 and waits for them.
  StatusOr<Stretch> run(int launches, const std::function<Status(int)> &launch);
  /// Mean power, where the card has a counter; more exact when later stretches
  /// have run, as the counter advances in steps.
  std::optional<double> watts(const Stretch &stretch) const;
  /// Of the multiprocessors, as the driver told last.
  std::optional<int> megahertz() const;

private:
  explicit SteadyLoad(std::optional<GpuMonitor> monitor)
      : monitor(std::move(monitor)) {}
  /// Reads the counter until the event has passed; returns when.
  StatusOr<double> waitFor(cudaEvent_t event);

  std::optional<GpuMonitor> monitor;
  EnergyLog energy;
  cudaEvent_t middle = nullptr, end = nullptr;
};

} // namespace qwen::bench

#endif // QWEN_TOOLS_QWEN_BENCH_STEADYLOAD_H
