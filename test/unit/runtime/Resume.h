//===- Resume.h - Runs that go on from their newest checkpoint -*- C++ -*-===//

#ifndef QWEN_TEST_UNIT_RUNTIME_RESUME_H
#define QWEN_TEST_UNIT_RUNTIME_RESUME_H

#include "runtime/trainer/TrainingRun.h"

#include <optional>

namespace qwen {

/// Brings engine and trainer to the newest checkpoint of a run's folder, which
/// must live as long as the run; nothing where there is none.
inline StatusOr<std::optional<ResumedCheckpoint>>
resumeNewest(const std::string &out, Engine &engine, Trainer &trainer) {
  std::optional<ResumedCheckpoint> resumed;
  std::vector<std::string> warnings;
  auto newest = findNewestCheckpoint(out, warnings);
  if (newest.status().code() == StatusCode::NotFound)
    return resumed;
  QWEN_RETURN_IF_ERROR(newest.status());
  QWEN_ASSIGN_OR_RETURN(ResumedCheckpoint loaded,
                        loadForResume(newest->path, engine, {}));
  resumed.emplace(std::move(loaded));
  QWEN_ASSIGN_OR_RETURN(TrainerState state, readTrainerState(newest->path));
  QWEN_RETURN_IF_ERROR(trainer.restore(state));
  return resumed;
}

} // namespace qwen

#endif // QWEN_TEST_UNIT_RUNTIME_RESUME_H
