//===- MetricsLog.h - Metrics of a run on disk -----------------*- C++ -*-===//
//
// One JSON object a line in `metrics.jsonl`, and the same numbers as a
// TensorBoard event file.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_METRICS_METRICSLOG_H
#define QWEN_RUNTIME_METRICS_METRICSLOG_H

#include "runtime/metrics/TensorBoard.h"

#include <optional>
#include <string>
#include <string_view>

namespace qwen {

/// Appends metrics of steps to the files of a run folder.
class MetricsLog {
public:
  /// Opens `<directory>/metrics.jsonl` and `<directory>/tensorboard`. Lines of
  /// steps after `completedStep`, which a resumed run will write again, and a
  /// last line that a killed run left unfinished are removed.
  static StatusOr<MetricsLog> open(const std::string &directory,
                                   int64_t completedStep);

  /// Writes {"step": step, "<name>": value, …}; a value that is not finite is
  /// null in JSON. `group` ("train", "eval") is the TensorBoard prefix.
  Status write(int64_t step, std::string_view group,
               std::span<const Scalar> scalars);

private:
  MetricsLog(OutputFile jsonLines, EventWriter writer)
      : lines(std::move(jsonLines)), events(std::move(writer)) {}

  OutputFile lines;
  EventWriter events;
};

} // namespace qwen

#endif // QWEN_RUNTIME_METRICS_METRICSLOG_H
