//===- StepBenchmark.h - Times of training steps ---------------*- C++ -*-===//
//
// Runs a trainer's steps as training runs them, the next one started before the
// results of one are read, and measures the time between ends of steps. What
// qwenrun --benchmark and qwen-bench step share.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_BENCHMARK_STEPBENCHMARK_H
#define QWEN_RUNTIME_BENCHMARK_STEPBENCHMARK_H

#include "runtime/trainer/PlanEngine.h"
#include "runtime/trainer/Trainer.h"

#include <chrono>
#include <string>
#include <vector>

namespace qwen::bench {

struct StepBenchmarkOptions {
  int64_t steps = 20; ///< timed
  /// Not timed: pages are touched, graphs are captured, caches and threads
  /// warm.
  int64_t warmUp = 3;
  /// What to train with; its number of steps is set here.
  TrainerOptions trainer;
  /// For MFU and HFU; 0: unknown.
  double peakTflops = 0;
  /// When the program started, for the time to the first step.
  std::chrono::steady_clock::time_point started =
      std::chrono::steady_clock::now();
  std::FILE *log = stderr; ///< a line a step
};

/// What was measured. Sums are over the timed steps and all ranks; launches and
/// memory are those of one rank.
struct StepMeasurement {
  std::vector<double> milliseconds; ///< of each timed step
  double firstStepSeconds = 0;      ///< from the start of the program
  int64_t tokens = 0;               ///< without padding
  double modelFlops = 0;            ///< as the model asks for
  double hardwareFlops = 0;         ///< as the launches do, recomputed ones too
  double peakTflops = 0;
  double firstLoss = 0, lastLoss = 0;
  int64_t packTokens = 0, accumulation = 0, ranks = 1;
  LaunchCounts launches; ///< a step
  MemoryReport memory;
  int64_t forecastBytes = 0; ///< of device memory, by the plan

  double seconds() const;
  double medianMilliseconds() const;
};

/// Fails where a step is skipped.
StatusOr<StepMeasurement> measureSteps(PlanEngine &engine, const Plan &plan,
                                       const TokenDataset &data,
                                       const StepBenchmarkOptions &options);

/// The measurement's fields as those of a JSON object, without braces.
std::string jsonFields(const StepMeasurement &measured);

/// A data set of documents of these lengths with random tokens.
StatusOr<TokenDataset> randomDocuments(const std::vector<int64_t> &lengths,
                                       int64_t vocabSize, uint32_t seed);

/// A data set each of whose epochs is a step of so many packs that all hold
/// documents of these lengths. InvalidArgument where they do not fit a pack, or
/// where so many of them are packed otherwise.
StatusOr<TokenDataset> packsOfStep(const std::vector<int64_t> &lengths,
                                   const PlanInfo &info, int64_t packs,
                                   uint32_t seed);

} // namespace qwen::bench

#endif // QWEN_RUNTIME_BENCHMARK_STEPBENCHMARK_H
