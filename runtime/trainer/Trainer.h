//===- Trainer.h - Optimizer steps and evaluation --------------*- C++ -*-===//
//
// One step takes `accumulation` packs of the current epoch, or what is left of
// it: an epoch's last step may have fewer, and no step crosses an epoch. The
// loss is the mean over the supervised tokens of the whole step. A micro-batch
// without a supervised token is not run; a step without one changes nothing
// and is counted. Both take their place in the schedule and the data.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_TRAINER_TRAINER_H
#define QWEN_RUNTIME_TRAINER_TRAINER_H

#include "runtime/trainer/Engine.h"
#include "runtime/trainer/Schedule.h"
#include "runtime/trainer/TrainerState.h"

#include <functional>
#include <optional>

namespace qwen {

/// What to train with. One of `steps` and `epochs` is positive.
struct TrainerOptions {
  int64_t steps = 0;
  int64_t epochs = 0;
  int64_t accumulation = 1;
  uint32_t seed = 0;
  Schedule schedule;
  AdamWOptions adamw;
};

/// What a step did.
struct StepResult {
  enum class Kind {
    Updated,
    Empty,     ///< no supervised token
    NonFinite, ///< loss or gradient is NaN or infinite; weights kept
  };
  Kind kind = Kind::Updated;
  double loss = 0; ///< mean over supervised tokens
  double gradNorm = 0;
  double learningRate = 0;
  int64_t packs = 0;
  int64_t tokens = 0; ///< without padding
  int64_t supervised = 0;
  double contextPairs = 0;
};

/// Mean negative log-likelihood over a data set.
struct EvalResult {
  double loss = 0;
  int64_t supervised = 0;
  bool stopped = false; ///< before its end; the rest means nothing
};

/// Trains an engine on a data set.
class Trainer {
public:
  /// Packs the epochs that the run needs to know its length. The arguments must
  /// outlive the trainer.
  static StatusOr<Trainer> create(Engine &engine, const TokenDataset &data,
                                  const TrainerOptions &options);

  /// Goes on where a checkpoint stood.
  Status restore(const TrainerState &saved);

  int64_t totalSteps() const { return total; }
  const TrainerState &state() const { return position; }
  bool finished() const { return position.step >= total; }
  /// Of the current epoch.
  double packingEfficiency() const { return packing->efficiency(); }
  int64_t packsOfEpoch() const { return packing->packs(); }

  /// Runs one step.
  Status step(StepResult &result);

  /// After a step that was not finite: runs its micro-batches again and names
  /// the first thing found NaN or infinite.
  std::string explainNonFinite();

private:
  Trainer(Engine &engine, const TokenDataset &data, TrainerOptions options)
      : engine(&engine), data(&data), options(options) {}
  Status loadEpoch();
  void advance(int64_t packs);
  double runMicroBatches(std::span<const int64_t> packs, float lossScale,
                         StepResult &result);
  void update(StepResult &result);

  Engine *engine;
  const TokenDataset *data;
  TrainerOptions options;
  TrainerState position;
  int64_t total = 0;
  int64_t packedEpoch = -1;
  std::optional<EpochPacking> packing;
  Batch batch;
  int64_t lastEpoch = 0;          ///< of lastPacks
  std::vector<int64_t> lastPacks; ///< run in the last step
  int64_t lastSupervised = 0;
};

/// Evaluates on all documents, in the order of the file. `stopRequested`, where
/// given, is asked before each pack.
StatusOr<EvalResult>
evaluate(Engine &engine, const TokenDataset &data,
         const std::function<bool()> &stopRequested = nullptr);

/// Copies a batch into the engine's inputs.
void setInputs(const Batch &batch, const EngineBuffers &buffers);

/// Sum of the losses of the supervised positions, in double.
double sumLosses(const Batch &batch, const Buffer &nll);

/// Zeroes all gradients without an update.
void discardGradients(Engine &engine);

} // namespace qwen

#endif // QWEN_RUNTIME_TRAINER_TRAINER_H
