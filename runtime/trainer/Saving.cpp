//===- Saving.cpp - Checkpoints of a run ----------------------------------===//

#include "runtime/trainer/Saving.h"

#include "runtime/support/Publish.h"

#include <chrono>

using namespace qwen;

namespace {
/// Adds the seconds of its life to a sum.
class Pause {
public:
  explicit Pause(double &sum) : sum(sum) {}
  ~Pause() {
    std::chrono::duration<double> taken = Clock::now() - begin;
    sum += taken.count();
  }
  Pause(const Pause &) = delete;

private:
  using Clock = std::chrono::steady_clock;
  double &sum;
  Clock::time_point begin = Clock::now();
};
} // namespace

/// The state of some parameters with the run's files.
static CheckpointContent contentOf(const RunFiles &files,
                                   std::span<const ParameterView> parameters,
                                   const TrainerState &state,
                                   const std::string &optionsText) {
  CheckpointContent content;
  content.step = state.step;
  content.source = files.source;
  content.parameters = parameters;
  content.addFiles = [sideFiles = files.sideFiles, further = files.addFiles,
                      text = formatTrainerState(state, optionsText)](
                         const std::string &folder) -> Status {
    if (sideFiles)
      QWEN_RETURN_IF_ERROR(sideFiles->writeTo(folder));
    if (further)
      QWEN_RETURN_IF_ERROR(further(folder));
    return publishFile(folder + "/trainer_state.json", text);
  };
  return content;
}

StatusOr<std::string> qwen::saveCheckpoint(const RunFiles &files,
                                           Engine &engine,
                                           const TrainerState &state,
                                           const std::string &optionsText) {
  CheckpointWriter writer(files.directory, engine.ranks());
  return writer.save(contentOf(files, engine.parameters(), state, optionsText));
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

Saving::Saving(const RunFiles &files, Engine &engine, Progress &progress,
               int64_t keep, std::string optionsText)
    : files(files), engine(engine), progress(progress), keep(keep),
      optionsText(std::move(optionsText)),
      writer(files.directory, engine.ranks()) {}

/// Ends a save, the older ones of which may go then.
Status Saving::complete(const StatusOr<std::string> &saved, int64_t step) {
  QWEN_RETURN_IF_ERROR(saved.status());
  savedStep = step;
  Status kept;
  if (files.directory) {
    Pause pause(paused);
    kept = files.directory->keepNewest(keep, step);
  }
  progress.line(
      fmt::format("saved {}; training paused for {:.2f} s", *saved, paused));
  if (!kept.ok())
    progress.line(
        fmt::format("warning: older checkpoints stay: {}", kept.message()));
  return okStatus();
}

/// What a checkpoint that was not saved means for the run.
Status Saving::judge(const Status &failure, int64_t step) {
  if (failure.ok())
    return failure;
  // NaN in the weights will not go away.
  if (failure.code() == StatusCode::FailedPrecondition)
    return failure.withContext("checkpoint not saved");
  progress.line(fmt::format("warning: checkpoint of step {} not saved: {}",
                            step, failure.message()));
  return okStatus();
}

/// Ends what `writer` has under way.
Status Saving::finish() {
  int64_t step = writer.step();
  auto saved = [&] {
    Pause pause(paused);
    return writer.finish();
  }();
  return judge(complete(saved, step), step);
}

Status Saving::poll() {
  if (!writer.isBusy())
    return okStatus();
  QWEN_ASSIGN_OR_RETURN(bool isWritten, writer.isWritten());
  return isWritten ? finish() : okStatus();
}

Status Saving::settle() {
  QWEN_RETURN_IF_ERROR(poll());
  if (!writer.isBusy())
    return okStatus();
  progress.line(fmt::format(
      "checkpoint of step {} is still being written, waiting for it",
      writer.step()));
  return finish();
}

/// Saves the state itself, in this thread.
Status Saving::saveNow(const TrainerState &state) {
  auto saved = [&] {
    Pause pause(paused);
    return saveCheckpoint(files, engine, state, optionsText);
  }();
  return complete(saved, state.step);
}

Status Saving::save(const TrainerState &state) {
  QWEN_RETURN_IF_ERROR(settle());
  if (savedStep == state.step)
    return okStatus();
  progress.activity("saving");
  paused = 0;
  Status copied = [&] {
    Pause pause(paused);
    return copy.take(engine.parameters(), engine.ranks());
  }();
  if (copied.code() == StatusCode::ResourceExhausted) {
    progress.line(fmt::format("training waits for the checkpoint of step {}: "
                              "{}",
                              state.step, copied.message()));
    return judge(saveNow(state), state.step);
  }
  if (copied.ok()) {
    Pause pause(paused);
    copied =
        writer.begin(contentOf(files, copy.parameters(), state, optionsText));
  }
  return judge(copied, state.step);
}

Status Saving::saveLast(const TrainerState &state) {
  QWEN_RETURN_IF_ERROR(settle());
  if (savedStep == state.step)
    return okStatus();
  progress.activity("saving");
  paused = 0;
  return saveNow(state).withContext("checkpoint not saved");
}
