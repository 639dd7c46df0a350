//===- TensorBoard.h - Event files for TensorBoard -------------*- C++ -*-===//
//
// A file of records: length, masked CRC of the length, an Event message, masked
// CRC of the message.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_METRICS_TENSORBOARD_H
#define QWEN_RUNTIME_METRICS_TENSORBOARD_H

#include "runtime/support/File.h"

#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace qwen {

/// A named value of a step.
using Scalar = std::pair<std::string, double>;

/// Writes one event file.
class EventWriter {
public:
  /// Creates `<directory>/events.out.tfevents.<time>.<host>.<process>` and the
  /// folder. Events of older files from `firstStep` on are declared void.
  static StatusOr<EventWriter> create(const std::string &directory,
                                      int64_t firstStep);

  /// Adds the scalars of a step.
  Status write(int64_t step, std::span<const Scalar> scalars);

private:
  explicit EventWriter(OutputFile output) : file(std::move(output)) {}
  Status writeRecord(const std::string &message);

  OutputFile file;
};

} // namespace qwen

#endif // QWEN_RUNTIME_METRICS_TENSORBOARD_H
