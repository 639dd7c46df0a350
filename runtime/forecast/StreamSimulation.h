//===- StreamSimulation.h - When the steps of streams run ------*- C++ -*-===//
//
// Plays the steps of a program that several streams share: each stream runs its
// steps in order, and a step starts when the steps that it waits for have
// ended.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_FORECAST_STREAMSIMULATION_H
#define QWEN_RUNTIME_FORECAST_STREAMSIMULATION_H

#include <cstdint>
#include <span>
#include <vector>

namespace qwen {

/// A step that takes so long. `waits` are numbers of earlier steps.
struct TimedStep {
  int stream = 0;
  double seconds = 0;
  std::span<const uint32_t> waits;
};

/// A run of all steps.
struct StreamTimes {
  double seconds = 0; ///< until all streams have ended
  double compute = 0; ///< that stream 0 works
  /// Of each step of another stream: for how long it ran while stream 0 stood
  /// still. They add up to what the run takes longer than stream 0 works, where
  /// there are two streams.
  std::vector<double> exposed;
};

/// Runs the steps from 0 to the last.
StreamTimes simulateStreams(std::span<const TimedStep> steps);

} // namespace qwen

#endif // QWEN_RUNTIME_FORECAST_STREAMSIMULATION_H
