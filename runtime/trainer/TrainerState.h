//===- TrainerState.h - Where a run stands ---------------------*- C++ -*-===//
//
// What `trainer_state.json` of a checkpoint holds: the position in the data,
// the counters, and what must be the same for the run to go on.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_TRAINER_TRAINERSTATE_H
#define QWEN_RUNTIME_TRAINER_TRAINERSTATE_H

#include "qwen/Support/Status.h"

#include <cstdint>
#include <string>

namespace qwen {

/// What decides which samples a step sees. A resumed run must agree in all.
struct RunIdentity {
  uint64_t dataHash = 0;
  uint32_t seed = 0;
  int64_t tokens = 0;    ///< of a pack
  int64_t documents = 0; ///< most of a pack
  int64_t accumulation = 1;
};

/// Position and counters between two steps.
struct TrainerState {
  int64_t step = 0;    ///< finished steps, skipped ones included
  int64_t updates = 0; ///< steps that changed the weights
  int64_t epoch = 0;
  int64_t pack = 0; ///< next pack of the epoch
  int64_t tokens = 0, supervisedTokens = 0;
  int64_t emptySteps = 0;        ///< without a supervised token
  int64_t emptyMicroBatches = 0; ///< in steps that had some
  int64_t nonFiniteSteps = 0;
  int64_t nonFiniteInARow = 0;
  int64_t evaluatedStep = 0; ///< of the last whole evaluation; 0: none
  RunIdentity identity;
  std::string options; ///< JSON of what shaped training, as it was read
};

/// Text of trainer_state.json. `options` is a JSON object for the reader.
std::string formatTrainerState(const TrainerState &state,
                               const std::string &options);

/// Reads `<checkpoint>/trainer_state.json`.
StatusOr<TrainerState> readTrainerState(const std::string &checkpoint);

/// FailedPrecondition that names every difference.
Status checkSameRun(const RunIdentity &saved, const RunIdentity &now);

} // namespace qwen

#endif // QWEN_RUNTIME_TRAINER_TRAINERSTATE_H
