//===- MeasureProfile.h - Times of the launches of a step ------*- C++ -*-===//

#ifndef QWEN_RUNTIME_PROFILE_MEASUREPROFILE_H
#define QWEN_RUNTIME_PROFILE_MEASUREPROFILE_H

#include "runtime/executor/Executor.h"
#include "runtime/profile/Profile.h"

#include <functional>

namespace qwen {

/// One of the programs that make up a training step.
struct StepPart {
  int program;
  double contextPairs = 0;
  std::function<void()> setInputs;
};

/// What was measured of a step.
struct StepMeasurement {
  StepProfile profile;
  /// A step as training runs it, started without waiting for the one before:
  /// a replayed graph on a GPU.
  double replayMilliseconds = 0;
  LaunchCounts counts; ///< of a step
  /// Of a step whose launches are timed: what the launches of either kind take,
  /// and for how long nothing is computed as another rank's data is missing.
  double computeMilliseconds = 0, communicationMilliseconds = 0,
         exposedMilliseconds = 0;
};

/// Runs the step `warmUp` times, then `steps` times with the times of its
/// launches, then as often as training would.
StatusOr<StepMeasurement> measureStep(Executor &executor,
                                      std::span<const StepPart> step,
                                      int64_t warmUp, int64_t steps);

} // namespace qwen

#endif // QWEN_RUNTIME_PROFILE_MEASUREPROFILE_H
