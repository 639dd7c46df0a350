//===- TrainingRun.h - A run with its files --------------------*- C++ -*-===//
//
// Steps, evaluation, metrics, checkpoints and a clean stop.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_TRAINER_TRAININGRUN_H
#define QWEN_RUNTIME_TRAINER_TRAININGRUN_H

#include "runtime/checkpoint/RunDirectory.h"
#include "runtime/metrics/GpuMonitor.h"
#include "runtime/metrics/MetricsLog.h"
#include "runtime/metrics/Progress.h"
#include "runtime/trainer/Trainer.h"

#include <functional>
#include <optional>

namespace qwen {

/// When to evaluate, save and give up.
struct RunOptions {
  int64_t evalEvery = 0;          ///< steps; 0: at the end only
  int64_t saveEvery = 0;          ///< steps; 0: at the end only
  int64_t keep = 2;               ///< checkpoints
  int64_t maxNonFinite = 10;      ///< steps in a row
  double peakTflops = 0;          ///< of the machine; 0: unknown
  std::string optionsText = "{}"; ///< JSON, for trainer_state.json
};

/// Where the checkpoints of a run come from and go to.
struct RunFiles {
  /// Of the first rank; null on the others, and where nothing is saved.
  const RunDirectory *directory = nullptr;
  /// The loaded checkpoint, whose layout is kept; null for random weights.
  const Checkpoint *source = nullptr;
  const SideFiles *sideFiles = nullptr;
};

/// Writes and publishes the checkpoint of a state. Refuses weights or moments
/// that are not finite. Returns the folder. To be called on all ranks.
StatusOr<std::string> saveCheckpoint(const RunFiles &files, Engine &engine,
                                     const TrainerState &state,
                                     const RunOptions &options);

/// Loads weights and optimizer state of a checkpoint of `saveCheckpoint`. The
/// result must live as long as the engine's parameters are saved.
struct ResumedCheckpoint {
  Checkpoint weights, optimizer;
  LoadReport report;
};
StatusOr<ResumedCheckpoint>
loadForResume(const std::string &path, Engine &engine,
              std::span<const std::string> carryPrefixes);

/// How a run ended.
enum class RunEnd { Finished, Stopped };

/// A run from the trainer's position to its end, or until `stopRequested`,
/// which is asked after each step and in evaluations. An evaluation that a stop
/// cut short is made up for by the run that goes on.
///
/// Where the engine runs ahead, the micro-batches of a step are started before
/// the results of the one before it are read, except where something has to
/// happen between the two. A stop drops what was started.
class TrainingRun {
public:
  TrainingRun(Trainer &trainer, Engine &engine, const TokenDataset *evalData,
              RunFiles files, RunOptions options, MetricsLog *metrics,
              Progress &progress, const GpuMonitor *gpu = nullptr)
      : trainer(trainer), engine(engine), evalData(evalData), files(files),
        options(std::move(options)), metrics(metrics), progress(progress),
        gpu(gpu) {}

  StatusOr<RunEnd> run(const std::function<bool()> &stopRequested);

private:
  bool due(int64_t every, int64_t step) const;
  Status runStep(StepResult &result);
  Status reportStep(const StepResult &result, double seconds);
  Status checkNonFinite(const StepResult &result);
  Status runEvaluation(const std::function<bool()> &stopRequested);
  void writeMetrics(std::string_view group, std::span<const Scalar> scalars);
  Status save(bool last);

  Trainer &trainer;
  Engine &engine;
  const TokenDataset *evalData;
  RunFiles files;
  RunOptions options;
  MetricsLog *metrics;
  Progress &progress;
  const GpuMonitor *gpu;
  bool saves = false; ///< some rank has a directory
  int64_t savedStep = -1, evaluatedStep = 0;
  int64_t stepsHere = 0;  ///< done by this process
  double stepSeconds = 0; ///< they took
  double stepBegan = 0;   ///< when the pending step's time begins
};

} // namespace qwen

#endif // QWEN_RUNTIME_TRAINER_TRAININGRUN_H
