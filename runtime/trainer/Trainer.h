//===- Trainer.h - Optimizer steps and evaluation --------------*- C++ -*-===//
//
// One step takes `accumulation` packs a rank of the current epoch, or what is
// left of it: an epoch's last step may have fewer, and no step crosses an
// epoch. The loss is the mean over the supervised tokens of the whole step. A
// micro-batch without a supervised token is not run; a step without one changes
// nothing and is counted. Both take their place in the schedule and the data.
//
// With N ranks, rank r takes packs r, r + N, ... of a step. Each knows the
// packs of all, so that what is counted is that of the whole step on every
// rank. As the ranks need each other in a micro-step, one of those whose pack
// is missing or has no supervised token runs an empty pack, unless that holds
// for all.
//
// A step is started and finished apart, so that the next one's micro-batches
// can be started before the results of this one are read:
//
//   trainer.start();          // micro-batches of step n
//   trainer.start();          // update of step n, micro-batches of step n + 1
//   trainer.finish(result);   // results of step n
//
// The update of a step is started when all steps before it are finished, as its
// bias corrections count the updates that were not skipped. Results do not
// depend on how far ahead steps were started.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_TRAINER_TRAINER_H
#define QWEN_RUNTIME_TRAINER_TRAINER_H

#include "runtime/trainer/Engine.h"
#include "runtime/trainer/Schedule.h"
#include "runtime/trainer/TrainerState.h"

#include <deque>
#include <functional>
#include <optional>

namespace qwen {

/// What to train with. One of `steps` and `epochs` is positive.
struct TrainerOptions {
  int64_t steps = 0;
  int64_t epochs = 0;
  int64_t accumulation = 1; ///< micro-batches of a rank
  /// Micro-batches of a step over all ranks; 0: `accumulation` on each.
  int64_t packsPerStep = 0;
  uint32_t seed = 0;
  Schedule schedule;
  AdamWOptions adamw;

  /// Micro-batches of a step over all ranks.
  int64_t packsOfStep(int64_t ranks) const {
    return packsPerStep > 0 ? packsPerStep : accumulation * ranks;
  }
};

/// Gradients that ranks hold in bf16 are rounded when they are stored, so that
/// nothing is added to them: a step has one micro-batch on each rank.
Status checkMicroBatches(DType gradient, const TrainerOptions &options,
                         int64_t ranks);

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
  int64_t microBatches = 0; ///< of `packs`: with a supervised token
  int64_t rounds = 0;       ///< micro-steps that each rank ran
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
  /// Of the epoch of the step that was started last.
  double packingEfficiency() const { return packing->efficiency(); }
  /// Of the epoch of the step that was finished last.
  int64_t packsOfEpoch() const { return last.packsOfEpoch; }

  /// Starts the next step; nothing where there is none. At most two steps are
  /// started and not finished.
  Status start();
  /// Waits for the oldest step that was started. `state()` is then the one
  /// after it.
  Status finish(StepResult &result);
  /// Runs one step. Nothing may be started.
  Status step(StepResult &result);
  /// Steps that were started and not finished.
  int64_t pendingSteps() const { return int64_t(pending.size()); }
  /// Forgets the step that was started, if any: the state is that after the
  /// last finished step. Its update must not have been started, that is, no
  /// other step was pending when it was started or since.
  Status cancel();

  /// After a step that was not finite: runs its micro-batches again, launch by
  /// launch, and names the first one that wrote something NaN or infinite.
  /// Cancels what was started. Weights and moments stay as they are. On all
  /// ranks, with one answer.
  StatusOr<std::string> explainNonFinite();

private:
  /// Stands for a pack without documents.
  static constexpr int64_t emptyPack = -1;
  /// A place in the data.
  struct Cursor {
    int64_t step = 0, epoch = 0, pack = 0;
  };
  /// A micro-batch whose losses are not read yet.
  struct MicroBatch {
    EngineRun run;
    std::vector<int32_t> labels;
  };
  /// A step between its start and its end.
  struct PendingStep {
    StepResult result;
    Cursor begin, end;
    int64_t packsOfEpoch = 0;
    std::vector<int64_t> packs; ///< of this rank's rounds; emptyPack: none
    std::deque<MicroBatch> unread;
    double lossSum = 0;
    std::optional<EngineRun> update;
    std::optional<std::array<float, 4>> stats;
  };

  Trainer(Engine &engine, const TokenDataset &data, TrainerOptions options)
      : engine(&engine), data(&data), options(options) {}
  Status loadEpoch();
  int64_t packsPerStep() const { return position.identity.accumulation; }
  PendingStep nextStep();
  void choosePacks(PendingStep &step, int64_t begin);
  Status fillPack(const EpochPacking &packs, int64_t pack);
  Status startMicroBatches(PendingStep &step);
  Status startUpdate();
  StatusOr<EngineRun> startRun(EngineRun::Program program);
  Status readLosses(PendingStep &step, int64_t upTo);
  Status readStats(PendingStep &step);
  Status countStep(PendingStep &step);
  /// The program of the micro-batches that a step runs: the first one
  /// overwrites the gradients, whatever is in them.
  static EngineRun::Program microStepAt(int64_t index);
  StatusOr<std::string> describeFinding(const NonFiniteFinding &finding,
                                        size_t round);

  Engine *engine;
  const TokenDataset *data;
  TrainerOptions options;
  TrainerState position; ///< after the last finished step
  Cursor cursor;         ///< after the last started step
  int64_t total = 0;
  int64_t packedEpoch = -1;
  std::optional<EpochPacking> packing; ///< of the cursor's epoch
  Batch batch;
  int64_t nextRun = 0;
  std::deque<PendingStep> pending;
  PendingStep last; ///< finished
};

/// Evaluates on all documents, in the order of the file. `stopRequested`, where
/// given, is asked before each pack.
StatusOr<EvalResult>
evaluate(Engine &engine, const TokenDataset &data,
         const std::function<bool()> &stopRequested = nullptr);

/// Copies a batch into the engine's inputs.
void setInputs(const Batch &batch, const EngineInputs &inputs);

/// Sum of the losses of the positions that have a label, in double.
double sumLosses(std::span<const int32_t> labels, const Buffer &nll);

} // namespace qwen

#endif // QWEN_RUNTIME_TRAINER_TRAINER_H
