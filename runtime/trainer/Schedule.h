//===- Schedule.h - Learning rate and optimizer constants ------*- C++ -*-===//
//
// The learning rate of a step is a function of the step number and the options
// alone, computed in double and rounded once.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_TRAINER_SCHEDULE_H
#define QWEN_RUNTIME_TRAINER_SCHEDULE_H

#include "qwen/Support/Status.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace qwen {

/// Shapes of the learning rate after the warm-up.
enum class ScheduleKind {
  Constant,
  Linear, ///< straight to the minimum at the last step
  Cosine, ///< half a cosine to the minimum
  Wsd,    ///< warm-up, stable, then straight to the minimum in the last part
};

std::optional<ScheduleKind> parseScheduleKind(std::string_view name);
std::string_view scheduleKindName(ScheduleKind kind);

/// A number of steps, given as such or as a part of all steps.
struct StepSpan {
  double value = 0;
  bool isRatio = false;

  int64_t steps(int64_t total) const;
};

/// "100" is 100 steps, "0.05" and "5%" are a twentieth of all steps.
StatusOr<StepSpan> parseStepSpan(std::string_view text);
/// "100" or "5%".
std::string toString(const StepSpan &span);

/// Learning rate over a run.
struct Schedule {
  ScheduleKind kind = ScheduleKind::Cosine;
  double peak = 1e-4;
  double minimum = 0;
  StepSpan warmup;
  StepSpan decay{0.2, true}; ///< the last part of Wsd

  /// Rate of step `step` of `total`, counted from 0. The first warm-up step has
  /// peak / warm-up steps, the last one the peak; a decay reaches the minimum
  /// one step after the last.
  double rate(int64_t step, int64_t total) const;
};

/// Constants of AdamW.
struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weightDecay = 0.1;
  double maxGradNorm = 1.0; ///< 0: no clipping
};

/// The `hyper` input of grad_norm and adamw for the `update`-th update, counted
/// from 1.
std::array<float, 8> makeHyper(const AdamWOptions &options, double rate,
                               int64_t update);

} // namespace qwen

#endif // QWEN_RUNTIME_TRAINER_SCHEDULE_H
