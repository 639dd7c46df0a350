//===- TrainingRun.cpp - A run with its files -----------------------------===//

#include "runtime/trainer/TrainingRun.h"

#include <chrono>
#include <cmath>

using namespace qwen;

static double now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
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
  // What was saved before all this is good.
  QWEN_RETURN_IF_ERROR(saving.settle());
  QWEN_ASSIGN_OR_RETURN(std::string found, trainer.explainNonFinite());
  return engine.ranks().agree(
      makeError(StatusCode::FailedPrecondition,
                "{} steps in a row were not finite, stopping at step {}; "
                "first NaN or infinity: {}",
                state.nonFiniteInARow, state.step, found));
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

TrainerState TrainingRun::stateToSave() const {
  TrainerState state = trainer.state();
  state.evaluatedStep = evaluatedStep;
  return state;
}

/// What is left to do for checkpoints between two steps.
Status TrainingRun::saveWhereDue() {
  if (!saves)
    return okStatus();
  QWEN_RETURN_IF_ERROR(saving.poll());
  return due(options.saveEvery, trainer.state().step)
             ? saving.save(stateToSave())
             : okStatus();
}

Status TrainingRun::saveLast() {
  // Before the first step there is nothing that a new run would not have.
  return saves && trainer.state().step > 0 ? saving.saveLast(stateToSave())
                                           : okStatus();
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
  saving.startFrom(trainer.state().step > 0 ? trainer.state().step : -1);
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
    QWEN_RETURN_IF_ERROR(saveWhereDue());
  }
  QWEN_RETURN_IF_ERROR(trainer.cancel());
  bool isFinished = trainer.finished();
  if (isFinished)
    QWEN_RETURN_IF_ERROR(runEvaluation(stopRequested));
  QWEN_RETURN_IF_ERROR(saveLast());
  return isFinished ? RunEnd::Finished : RunEnd::Stopped;
}
