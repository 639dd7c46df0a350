//===- Saving.h - Checkpoints of a run -------------------------*- C++ -*-===//
//
// A checkpoint in mid-run is written from a copy of the state while training
// goes on: training waits for the copy, and between two later steps for the
// renaming. The last one is written from the state itself.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_TRAINER_SAVING_H
#define QWEN_RUNTIME_TRAINER_SAVING_H

#include "runtime/checkpoint/CheckpointWriter.h"
#include "runtime/checkpoint/StateCopy.h"
#include "runtime/metrics/Progress.h"
#include "runtime/trainer/Engine.h"
#include "runtime/trainer/TrainerState.h"

#include <functional>
#include <string>

namespace qwen {

/// Where the checkpoints of a run come from and go to.
struct RunFiles {
  /// Of the first rank; null on the others, and where nothing is saved.
  const RunDirectory *directory = nullptr;
  /// The loaded checkpoint, whose layout is kept; null for random weights.
  const Checkpoint *source = nullptr;
  const SideFiles *sideFiles = nullptr;
  /// Writes further files of the first rank, in the thread that writes.
  std::function<Status(const std::string &folder)> addFiles = nullptr;
};

/// Writes and publishes the checkpoint of a state. Refuses weights or moments
/// that are not finite. Returns the folder. To be called on all ranks.
/// `optionsText`: JSON, for trainer_state.json.
StatusOr<std::string> saveCheckpoint(const RunFiles &files, Engine &engine,
                                     const TrainerState &state,
                                     const std::string &optionsText = "{}");

/// Loads weights and optimizer state of a checkpoint of `saveCheckpoint`. The
/// result must live as long as the engine's parameters are saved.
struct ResumedCheckpoint {
  Checkpoint weights, optimizer;
  LoadReport report;
};
StatusOr<ResumedCheckpoint>
loadForResume(const std::string &path, Engine &engine,
              std::span<const std::string> carryPrefixes);

/// The checkpoints of one run. Every rank has one and makes the same calls.
class Saving {
public:
  /// `keep`: how many checkpoints stay.
  Saving(const RunFiles &files, Engine &engine, Progress &progress,
         int64_t keep, std::string optionsText);

  /// Tells of a checkpoint that the run started from, or -1.
  void startFrom(int64_t step) { savedStep = step; }

  /// Starts to save in mid-run, unless the step is saved; first waits for the
  /// checkpoint before it. Where memory is short, saves at once. Only what will
  /// not go away is an error: a full disk is a warning, as the last good
  /// checkpoint is still there and the next one may fit.
  Status save(const TrainerState &state);
  /// Publishes what all ranks have written, between two steps.
  Status poll();
  /// Waits for what is being written and publishes it.
  Status settle();
  /// Saves at the end of the run, unless that step is saved. Every failure is
  /// an error.
  Status saveLast(const TrainerState &state);

private:
  Status saveNow(const TrainerState &state);
  Status finish();
  Status complete(const StatusOr<std::string> &saved, int64_t step);
  Status judge(const Status &failure, int64_t step);

  RunFiles files;
  Engine &engine;
  Progress &progress;
  int64_t keep;
  std::string optionsText;
  StateCopy copy; ///< outlives the writer's thread
  CheckpointWriter writer;
  int64_t savedStep = -1;
  double paused = 0; ///< seconds that training waited for the checkpoint
};

} // namespace qwen

#endif // QWEN_RUNTIME_TRAINER_SAVING_H
