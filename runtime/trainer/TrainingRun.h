//===- TrainingRun.h - A run with its files --------------------*- C++ -*-===//
//
// Steps, evaluation, metrics, checkpoints and a clean stop.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_TRAINER_TRAININGRUN_H
#define QWEN_RUNTIME_TRAINER_TRAININGRUN_H

#include "runtime/metrics/GpuMonitor.h"
#include "runtime/metrics/MetricsLog.h"
#include "runtime/metrics/Progress.h"
#include "runtime/trainer/Saving.h"
#include "runtime/trainer/Trainer.h"

#include <functional>
#include <optional>

namespace qwen {

/// When to evaluate, save and give up.
struct RunOptions {
  int64_t evalEvery = 0;          ///< steps; 0: at the end only
  int64_t saveEvery = 0;          ///< steps; 0: at the end only
  int64_t keep = 2;               ///< checkpoints
  int64_t maxNonFinite = 3;       ///< steps in a row
  double peakTflops = 0;          ///< of the machine; 0: unknown
  std::string optionsText = "{}"; ///< JSON, for trainer_state.json
};

/// How a run ended.
enum class RunEnd { Finished, Stopped };

/// A run from the trainer's position to its end, or until `stopRequested`,
/// which is asked after each step and in evaluations. An evaluation that a stop
/// cut short is made up for by the run that goes on.
///
/// Where the engine runs ahead, the micro-batches of a step are started before
/// the results of the one before it are read, except where something has to
/// happen between the two. A stop drops what was started. Checkpoints in
/// mid-run are written beside the steps that follow (Saving).
class TrainingRun {
public:
  TrainingRun(Trainer &trainer, Engine &engine, const TokenDataset *evalData,
              RunFiles files, RunOptions options, MetricsLog *metrics,
              Progress &progress, const GpuMonitor *gpu = nullptr)
      : trainer(trainer), engine(engine), evalData(evalData), files(files),
        options(std::move(options)), metrics(metrics), progress(progress),
        gpu(gpu), saving(this->files, engine, progress, this->options.keep,
                         this->options.optionsText) {}

  StatusOr<RunEnd> run(const std::function<bool()> &stopRequested);

private:
  bool due(int64_t every, int64_t step) const;
  Status runStep(StepResult &result);
  Status reportStep(const StepResult &result, double seconds);
  Status checkNonFinite(const StepResult &result);
  Status runEvaluation(const std::function<bool()> &stopRequested);
  void writeMetrics(std::string_view group, std::span<const Scalar> scalars);
  TrainerState stateToSave() const;
  Status saveWhereDue();
  Status saveLast();

  Trainer &trainer;
  Engine &engine;
  const TokenDataset *evalData;
  RunFiles files;
  RunOptions options;
  MetricsLog *metrics;
  Progress &progress;
  const GpuMonitor *gpu;
  Saving saving;
  bool saves = false; ///< some rank has a directory
  int64_t evaluatedStep = 0;
  int64_t stepsHere = 0;  ///< done by this process
  double stepSeconds = 0; ///< they took
  double stepBegan = 0;   ///< when the pending step's time begins
};

} // namespace qwen

#endif // QWEN_RUNTIME_TRAINER_TRAININGRUN_H
