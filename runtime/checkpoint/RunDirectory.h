//===- RunDirectory.h - The output folder of a training run ----*- C++ -*-===//
//
// Holds `checkpoint-<step>` folders, each published by one rename, and a lock
// that keeps a second run out. A folder of that name is complete by
// construction; what a killed process left has another name and is removed by
// the next run.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_CHECKPOINT_RUNDIRECTORY_H
#define QWEN_RUNTIME_CHECKPOINT_RUNDIRECTORY_H

#include "runtime/support/Publish.h"

#include <cstdint>
#include <string>
#include <vector>

namespace qwen {

/// One published checkpoint.
struct PublishedCheckpoint {
  int64_t step = 0;
  std::string path;
};

/// Checkpoints in `directory`, newest first. A folder that does not exist has
/// none.
std::vector<PublishedCheckpoint> listCheckpoints(const std::string &directory);

/// Verifies that a checkpoint can be resumed from: weights, optimizer state and
/// trainer state are there and their files are consistent.
Status verifyCheckpoint(const std::string &path);

/// The newest checkpoint that `verifyCheckpoint` accepts. Those passed over are
/// described in `warnings`. NotFound where there is none.
StatusOr<PublishedCheckpoint>
findNewestCheckpoint(const std::string &directory,
                     std::vector<std::string> &warnings);

/// An output folder that this process alone writes to.
class RunDirectory {
public:
  /// Creates the folder where needed, locks it and removes what interrupted
  /// saves left.
  static StatusOr<RunDirectory> open(const std::string &path);
  RunDirectory(RunDirectory &&other) noexcept;
  RunDirectory &operator=(RunDirectory &&) = delete;
  ~RunDirectory();

  const std::string &path() const { return folder; }
  /// The folder of a step's checkpoint, once it is published.
  std::string checkpointPath(int64_t step) const;
  /// Starts the checkpoint of a step.
  StatusOr<PendingDirectory> beginCheckpoint(int64_t step) const;
  /// Removes all but the newest `keep` (>= 1) of the checkpoints up to `step`.
  /// Later ones, which a resumed run passed over as damaged, do not count:
  /// they must not push out a good one.
  Status keepNewest(int64_t keep, int64_t step) const;

private:
  RunDirectory() = default;

  std::string folder;
  int lock = -1;
};

} // namespace qwen

#endif // QWEN_RUNTIME_CHECKPOINT_RUNDIRECTORY_H
