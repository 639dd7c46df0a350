//===- Progress.h - The line that shows how training goes ------*- C++ -*-===//
//
// One overwritten line on a terminal, a line every few steps elsewhere.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_METRICS_PROGRESS_H
#define QWEN_RUNTIME_METRICS_PROGRESS_H

#include "runtime/metrics/GpuMonitor.h"

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

namespace qwen {

/// What the line shows of a step.
struct StepReport {
  int64_t step = 0, totalSteps = 0; ///< finished, planned
  double loss = 0;
  double gradNorm = 0;
  double learningRate = 0;
  double tokensPerSecond = 0;
  std::optional<double> mfu; ///< 0 … 1; nothing where the peak is unknown
  double secondsLeft = 0;
  std::optional<double> hfu; ///< the same
  GpuSample gpu;             ///< what is known
};

/// The line without its end.
std::string formatStep(const StepReport &report);

/// "1:02:03", "12:34".
std::string formatDuration(double seconds);

/// Prints steps, and other lines without tearing the progress line.
class Progress {
public:
  /// Plain output shows every `plainEvery`-th step, the first and the last.
  /// `mayOverwrite`: a terminal shows the latest step in one place. Launchers
  /// of ranks give each a terminal of its own, wherever its output goes.
  Progress(std::FILE *out, int64_t plainEvery, bool mayOverwrite = true);
  ~Progress();
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  void step(const StepReport &report);
  /// A line of its own.
  void line(std::string_view text);
  /// Text that replaces the progress line on a terminal only, e.g. "saving".
  void activity(std::string_view text);

private:
  void clear();

  std::FILE *out;
  int64_t plainEvery;
  bool terminal;
  bool lineOpen = false;
  bool first = true;
};

} // namespace qwen

#endif // QWEN_RUNTIME_METRICS_PROGRESS_H
