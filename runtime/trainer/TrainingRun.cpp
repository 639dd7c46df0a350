//===- TrainingRun.cpp - A run with its files -----------------------------===//

#include "runtime/trainer/TrainingRun.h"

#include <chrono>
#include <cmath>

using namespace qwen;

static double now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

/// Files of a checkpoint that the first rank writes alone.
static Status writeOwnFiles(const std::string &folder, const RunFiles &files,
                            const TrainerState &state,
                            const RunOptions &options) {
  if (files.sideFiles)
    QWEN_RETURN_IF_ERROR(files.sideFiles->writeTo(folder));
  return publishFile(folder + "/trainer_state.json",
                     formatTrainerState(state, options.optionsText));
}

StatusOr<std::string> qwen::saveCheckpoint(const RunFiles &files,
                                           Engine &engine,
                                           const TrainerState &state,
                                           const RunOptions &options) {
  Communicator &ranks = engine.ranks();
  std::span<const ParameterView> parameters = engine.parameters();
  QWEN_RETURN_IF_ERROR(ranks.agree(checkFinite(parameters)));
  auto write = [&](const std::string &folder) -> Status {
    QWEN_RETURN_IF_ERROR(saveParameters(folder, files.source, parameters,
                                        defaultShardBytes, ranks));
    auto written = Checkpoint::open(folder);
    QWEN_RETURN_IF_ERROR(ranks.agree(written.status()));
    QWEN_RETURN_IF_ERROR(saveOptimizerState(folder, *written, parameters,
                                            defaultShardBytes, ranks));
    return ranks.rank() == 0 ? writeOwnFiles(folder, files, state, options)
                             : okStatus();
  };
  return publishCheckpoint(files.directory, state.step, ranks, write);
}

StatusOr<ResumedCheckpoint>
qwen::loadForResume(const std::string &path, Engine &engine,
                    std::span<const std::string> carryPrefixes) {
  Communicator &ranks = engine.ranks();
  auto weights = Checkpoint::open(path);
  QWEN_RETURN_IF_ERROR(ranks.agree(weights.status()));
  QWEN_ASSIGN_OR_RETURN(
      LoadReport report,
      loadParameters(*weights, engine.parameters(), carryPrefixes, ranks));
  QWEN_ASSIGN_OR_RETURN(Checkpoint optimizer,
                        loadOptimizerState(path, engine.parameters(), ranks));
  return ResumedCheckpoint{std::move(weights).value(), std::move(optimizer),
                           std::move(report)};
}

/// Adds what is known of the GPU.
static void addScalars(const GpuSample &gpu, std::vector<Scalar> &scalars) {
  if (gpu.memoryBytes)
    scalars.emplace_back("gpu_memory_bytes", double(*gpu.memoryBytes));
  if (gpu.utilization)
    scalars.emplace_back("gpu_utilization", *gpu.utilization);
  if (gpu.temperature)
    scalars.emplace_back("gpu_temperature", *gpu.temperature);
  if (gpu.smClockMegahertz)
    scalars.emplace_back("gpu_sm_clock_mhz", *gpu.smClockMegahertz);
}

/// Training is worth more than its metrics: a failure ends only them.
void TrainingRun::writeMetrics(std::string_view group,
                               std::span<const Scalar> scalars) {
  Status status = metrics->write(trainer.state().step, group, scalars);
  if (status.ok())
    return;
  progress.line(fmt::format("warning: no more metrics are written: {}",
                            status.message()));
  metrics = nullptr;
}

Status TrainingRun::reportStep(const StepResult &result, double seconds) {
  const TrainerState &state = trainer.state();
  if (result.kind == StepResult::Kind::Empty) {
    progress.line(fmt::format(
        "warning: step {} has no supervised token and was skipped ({} so far)",
        state.step, state.emptySteps));
    return okStatus();
  }
  double left = double(trainer.totalSteps() - state.step);
  StepReport report;
  report.step = state.step;
  report.totalSteps = trainer.totalSteps();
  report.loss = result.loss;
  report.gradNorm = result.gradNorm;
  report.learningRate = result.learningRate;
  report.tokensPerSecond = double(result.tokens) / seconds;
  if (options.peakTflops > 0) {
    double ranks = engine.ranks().size();
    double possible = ranks * options.peakTflops * 1e12 * seconds;
    report.mfu =
        engine.trainingFlops(double(result.tokens), result.contextPairs) /
        possible;
    report.hfu =
        ranks *
        engine.launchedFlops(result.rounds, result.contextPairs / ranks) /
        possible;
  }
  if (gpu)
    report.gpu = gpu->latest();
  report.secondsLeft = left * stepSeconds / double(stepsHere);
  progress.step(report);
  if (!metrics)
    return okStatus();
  std::vector<Scalar> scalars = {
      {"loss", result.loss},
      {"grad_norm", result.gradNorm},
      {"lr", result.learningRate},
      {"tokens_per_second", report.tokensPerSecond},
      {"seconds", seconds},
      {"tokens", double(state.tokens)},
      {"supervised_tokens", double(state.supervisedTokens)},
      {"epoch", double(state.epoch) +
                    double(state.pack) / double(trainer.packsOfEpoch())},
      {"non_finite_steps", double(state.nonFiniteSteps)},
      {"empty_steps", double(state.emptySteps)},
      {"empty_micro_batches", double(state.emptyMicroBatches)},
  };
  if (report.mfu)
    scalars.emplace_back("mfu", *report.mfu);
  if (report.hfu)
    scalars.emplace_back("hfu", *report.hfu);
  addScalars(report.gpu, scalars);
  writeMetrics("train", scalars);
  return okStatus();
}

Status TrainingRun::checkNonFinite(const StepResult &result) {
  if (result.kind != StepResult::Kind::NonFinite)
    return okStatus();
  const TrainerState &state = trainer.state();
  progress.line(fmt::format(
      "warning: {} of step {} is not finite; the update was skipped ({} so "
      "far, {} in a row)",
      std::isfinite(result.loss) ? "the gradient" : "the loss", state.step,
      state.nonFiniteSteps, state.nonFiniteInARow));
  if (state.nonFiniteInARow < options.maxNonFinite)
    return okStatus();
  QWEN_ASSIGN_OR_RETURN(std::string found, trainer.explainNonFinite());
  return makeError(StatusCode::FailedPrecondition,
                   "{} steps in a row were not finite, stopping at step {}; "
                   "first NaN or infinity: {}",
                   state.nonFiniteInARow, state.step, found);
}

Status TrainingRun::runEvaluation(const std::function<bool()> &stopRequested) {
  if (!evalData || evaluatedStep == trainer.state().step)
    return okStatus();
  progress.activity("evaluating");
  QWEN_ASSIGN_OR_RETURN(EvalResult result,
                        evaluate(engine, *evalData, stopRequested));
  if (result.stopped)
    return okStatus();
  evaluatedStep = trainer.state().step;
  progress.line(fmt::format(
      "eval after step {}: loss {:.4f}  perplexity {:.4g}  ({} tokens)",
      evaluatedStep, result.loss, std::exp(result.loss), result.supervised));
  if (!metrics)
    return okStatus();
  std::vector<Scalar> scalars = {{"loss", result.loss},
                                 {"perplexity", std::exp(result.loss)},
                                 {"tokens", double(result.supervised)}};
  writeMetrics("eval", scalars);
  return okStatus();
}

Status TrainingRun::save(bool last) {
  TrainerState state = trainer.state();
  state.evaluatedStep = evaluatedStep;
  if (!saves || savedStep == state.step)
    return okStatus();
  progress.activity("saving");
  double begin = now();
  auto saved = saveCheckpoint(files, engine, state, options);
  if (saved.ok()) {
    savedStep = state.step;
    progress.line(fmt::format("saved {}; training paused for {:.2f} s", *saved,
                              now() - begin));
    if (!files.directory)
      return okStatus();
    Status kept = files.directory->keepNewest(options.keep, state.step);
    if (!kept.ok())
      progress.line(
          fmt::format("warning: older checkpoints stay: {}", kept.message()));
    return okStatus();
  }
  // A full disk in mid-run must not end it: the last good checkpoint is still
  // there, and the next save may work. NaN in the weights will not go away.
  bool fatal = last || saved.status().code() == StatusCode::FailedPrecondition;
  if (fatal)
    return saved.status().withContext("checkpoint not saved");
  progress.line(fmt::format("warning: checkpoint of step {} not saved: {}",
                            state.step, saved.status().message()));
  return okStatus();
}

bool TrainingRun::due(int64_t every, int64_t step) const {
  return every > 0 && step % every == 0;
}

/// Finishes one step; its time is that since the step before, or since it was
/// started where that was later.
Status TrainingRun::runStep(StepResult &result) {
  int64_t step = trainer.state().step + 1;
  if (trainer.pendingSteps() == 0) {
    stepBegan = now();
    QWEN_RETURN_IF_ERROR(trainer.start());
  }
  bool ahead = engine.runsAhead() && !due(options.evalEvery, step) &&
               !due(options.saveEvery, step);
  if (ahead)
    QWEN_RETURN_IF_ERROR(trainer.start());
  QWEN_RETURN_IF_ERROR(trainer.finish(result));
  double end = now(), seconds = std::max(end - stepBegan, 1e-9);
  stepBegan = end;
  stepSeconds += seconds;
  ++stepsHere;
  return reportStep(result, seconds);
}

StatusOr<RunEnd> TrainingRun::run(const std::function<bool()> &stopRequested) {
  savedStep = trainer.state().step > 0 ? trainer.state().step : -1;
  evaluatedStep = trainer.state().evaluatedStep;
  QWEN_ASSIGN_OR_RETURN(saves, engine.ranks().any(files.directory != nullptr));
  if (due(options.evalEvery, trainer.state().step))
    QWEN_RETURN_IF_ERROR(runEvaluation(stopRequested));
  while (!trainer.finished()) {
    // A signal may reach any rank; all of them stop after the same step.
    QWEN_ASSIGN_OR_RETURN(bool stop, engine.ranks().any(stopRequested()));
    if (stop)
      break;
    StepResult result;
    QWEN_RETURN_IF_ERROR(runStep(result));
    QWEN_RETURN_IF_ERROR(checkNonFinite(result));
    if (due(options.evalEvery, trainer.state().step))
      QWEN_RETURN_IF_ERROR(runEvaluation(stopRequested));
    if (due(options.saveEvery, trainer.state().step))
      QWEN_RETURN_IF_ERROR(save(/*last=*/false));
  }
  QWEN_RETURN_IF_ERROR(trainer.cancel());
  if (trainer.finished()) {
    QWEN_RETURN_IF_ERROR(runEvaluation(stopRequested));
    QWEN_RETURN_IF_ERROR(save(/*last=*/true));
    return RunEnd::Finished;
  }
  // Before the first step there is nothing that a new run would not have.
  if (trainer.state().step > 0)
    QWEN_RETURN_IF_ERROR(save(/*last=*/true));
  return RunEnd::Stopped;
}
