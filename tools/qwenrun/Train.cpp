//===- Train.cpp - The training command -----------------------------------===//

#include "PlanReport.h"
#include "Session.h"

#include "runtime/support/Format.h"

using namespace qwen;

namespace {
/// Where the weights come from, decided before anything is allocated.
struct Start {
  std::string checkpoint; ///< to resume from; empty: a new run
  TrainerState state;
};
} // namespace

/// Decides between a new run and a resumed one. Only a resumed run may find
/// checkpoints in its folder.
static StatusOr<Start> findStart(Session &session) {
  const Options &options = session.options;
  Start start;
  if (!options.resume) {
    if (auto old = listCheckpoints(options.out); !old.empty())
      return makeError(StatusCode::FailedPrecondition,
                       "'{}' has checkpoints of an earlier run, the newest of "
                       "step {}: --resume goes on from it",
                       options.out, old.front().step);
    return start;
  }
  start.checkpoint = options.resumeFrom;
  if (start.checkpoint.empty()) {
    std::vector<std::string> warnings;
    auto newest = findNewestCheckpoint(options.out, warnings);
    for (const std::string &warning : warnings)
      print(session.log, "warning: {}\n", warning);
    bool canStart = !options.weights.empty() || !options.init.empty();
    if (!newest.ok() && warnings.empty() && canStart) {
      print(session.log,
            "--resume: '{}' has no checkpoint yet, starting anew\n",
            options.out);
      return start;
    }
    if (!newest.ok())
      return newest.status();
    start.checkpoint = newest->path;
  }
  QWEN_RETURN_IF_ERROR(verifyCheckpoint(start.checkpoint));
  QWEN_ASSIGN_OR_RETURN(start.state, readTrainerState(start.checkpoint));
  // A run that goes back would leave later checkpoints of another course, and
  // the next --resume would take those.
  if (auto all = listCheckpoints(options.out);
      !options.resumeFrom.empty() && !all.empty() &&
      all.front().step > start.state.step)
    return makeError(StatusCode::FailedPrecondition,
                     "'{}' is of step {}, but '{}' has a checkpoint of step "
                     "{}: go back in another --out, or remove it",
                     start.checkpoint, start.state.step, options.out,
                     all.front().step);
  print(session.log, "resuming from '{}': step {}, epoch {}, pack {}\n",
        start.checkpoint, start.state.step, start.state.epoch,
        start.state.pack);
  if (start.state.options != options.run.optionsText)
    print(session.log,
          "warning: options changed since the checkpoint: were {}, are "
          "{}\n",
          start.state.options, options.run.optionsText);
  return start;
}

/// The first rank decides for all.
static StatusOr<Start> agreeOnStart(Session &session) {
  QWEN_ASSIGN_OR_RETURN(
      Start start,
      agreed(session, session.isFirst() ? findStart(session) : Start()));
  QWEN_ASSIGN_OR_RETURN(start.checkpoint,
                        session.ranks->firstText(start.checkpoint));
  if (!start.checkpoint.empty()) {
    QWEN_ASSIGN_OR_RETURN(start.state,
                          agreed(session, readTrainerState(start.checkpoint)));
  }
  return start;
}

/// Files that go into every checkpoint beside the weights.
static Status collectSideFiles(Session &session) {
  const Options &options = session.options;
  if (session.source)
    QWEN_RETURN_IF_ERROR(
        session.sideFiles.addFolder(session.source->directory()));
  if (!options.tokenizer.empty()) {
    SideFiles tokenizer;
    QWEN_RETURN_IF_ERROR(tokenizer.addFolder(options.tokenizer));
    tokenizer.remove("config.json");
    session.sideFiles.merge(std::move(tokenizer));
  }
  if (!options.modelConfig.empty())
    QWEN_RETURN_IF_ERROR(
        session.sideFiles.addFile(options.modelConfig, "config.json"));
  if (!session.sideFiles.has("config.json"))
    print(session.log, "warning: the checkpoints will have no config.json "
                       "(--model-config gives one)\n");
  return okStatus();
}

/// Brings weights, and for a resumed run the optimizer, into the engine.
static Status loadState(Session &session, const Start &start) {
  if (start.checkpoint.empty())
    return loadWeights(session);
  QWEN_ASSIGN_OR_RETURN(
      session.resumed,
      loadForResume(start.checkpoint, *session.engine, session.options.carry));
  QWEN_ASSIGN_OR_RETURN(
      std::string text,
      describeLoad(*session.engine, session.resumed->report, start.checkpoint));
  print(session.log, "{}\n", text);
  return okStatus();
}

static void printTraining(const Session &session, const Trainer &trainer) {
  const TrainerOptions &options = session.options.trainer;
  int64_t packs = trainer.state().identity.accumulation;
  print(session.log,
        "packing: {} packs an epoch, {:.1f}% full; {} steps of {} "
        "micro-batch{}{}, {} schedule, lr {}\n",
        trainer.packsOfEpoch(), trainer.packingEfficiency() * 100,
        trainer.totalSteps(), packs, packs == 1 ? "" : "es",
        session.ranks->size() > 1
            ? fmt::format(" on {} ranks", session.ranks->size())
            : "",
        scheduleKindName(options.schedule.kind), options.schedule.peak);
}

/// Watches the GPU, where there is one that can be asked.
static std::optional<GpuMonitor> watchGpu(const Session &session) {
  std::string address = session.engine->device().pciAddress();
  if (address.empty())
    return std::nullopt;
  auto monitor = GpuMonitor::open(address);
  if (monitor.ok())
    return std::move(monitor).value();
  print(session.log, "no state of the GPU in the step lines: {}\n",
        monitor.status().message());
  return std::nullopt;
}

/// Steps, evaluations and checkpoints once everything is in place. Only the
/// first rank has a directory.
static Status runTraining(Session &session, Trainer &trainer,
                          const std::optional<TokenDataset> &evalData,
                          const RunDirectory *directory,
                          const std::function<bool()> &stopRequested) {
  std::optional<MetricsLog> metrics;
  auto openMetrics = [&]() -> Status {
    if (!directory)
      return okStatus();
    QWEN_ASSIGN_OR_RETURN(
        MetricsLog opened,
        MetricsLog::open(directory->path(), trainer.state().step));
    metrics.emplace(std::move(opened));
    return okStatus();
  };
  QWEN_RETURN_IF_ERROR(session.ranks->agree(openMetrics()));
  const Checkpoint *source = session.resumed  ? &session.resumed->weights
                             : session.source ? &*session.source
                                              : nullptr;
  RunFiles files{directory, source, &session.sideFiles};
  Progress progress(session.log, session.options.logEvery,
                    /*mayOverwrite=*/session.ranks->size() == 1);
  std::optional<GpuMonitor> gpu = watchGpu(session);
  TrainingRun run(trainer, *session.engine, evalData ? &*evalData : nullptr,
                  files, session.options.run, metrics ? &*metrics : nullptr,
                  progress, gpu ? &*gpu : nullptr);
  QWEN_ASSIGN_OR_RETURN(RunEnd end, run.run(stopRequested));
  const TrainerState &state = trainer.state();
  progress.line(fmt::format(
      "{} after {} steps: {} tokens, {} supervised; skipped: {} steps and {} "
      "micro-batches without supervised tokens, {} steps not finite",
      end == RunEnd::Finished ? "finished" : "stopped", state.step,
      state.tokens, state.supervisedTokens, state.emptySteps,
      state.emptyMicroBatches, state.nonFiniteSteps));
  return okStatus();
}

/// A checkpoint must fit the disk. The older ones are removed only after it.
static Status checkDiskSpace(Session &session) {
  const Checkpoint *source = session.source ? &*session.source : nullptr;
  QWEN_ASSIGN_OR_RETURN(int64_t tensors,
                        checkpointBytes(source, session.engine->parameters()));
  int64_t needed = tensors + session.sideFiles.bytes();
  QWEN_ASSIGN_OR_RETURN(int64_t free,
                        checkFreeSpace(session.options.out, needed));
  print(session.log, "a checkpoint takes {}, {} are free in '{}'\n",
        formatBytes(double(needed)), formatBytes(double(free)),
        session.options.out);
  return okStatus();
}

/// Whether weights and optimizer state fit the plan and a checkpoint the disk.
static Status checkFiles(Session &session, const Start &start) {
  if (session.source)
    QWEN_RETURN_IF_ERROR(checkLayout(
        *session.source, session.engine->parameters(), session.options.carry));
  if (!start.checkpoint.empty())
    QWEN_RETURN_IF_ERROR(
        checkOptimizerState(start.checkpoint, session.engine->parameters()));
  return checkDiskSpace(session);
}

namespace {
/// What training needs beside the session, open and checked.
struct Prepared {
  std::optional<TokenDataset> data, evalData;
  /// Locked; empty for a new run, whose folder is made at the last moment.
  std::optional<RunDirectory> directory;
  Start start;
};
} // namespace

static Status checkEvalData(const Options &options, const Prepared &prepared) {
  if (prepared.evalData->tokenizerHash() != prepared.data->tokenizerHash())
    return makeError(StatusCode::FailedPrecondition,
                     "'{}' and '{}' were made with different tokenizers",
                     options.data, options.eval);
  if (prepared.evalData->supervisedTokens() == 0)
    return invalidArgument("'{}' has no supervised token to evaluate on",
                           options.eval);
  return okStatus();
}

static Status openData(const Session &session, const Plan &plan,
                       Prepared &prepared) {
  const Options &options = session.options;
  QWEN_ASSIGN_OR_RETURN(prepared.data,
                        openDataset(session, options.data, plan));
  if (options.eval.empty())
    return okStatus();
  QWEN_ASSIGN_OR_RETURN(prepared.evalData,
                        openDataset(session, options.eval, plan));
  return session.ranks->agree(checkEvalData(options, prepared));
}

static Status lockDirectory(const Options &options, Prepared &prepared) {
  QWEN_ASSIGN_OR_RETURN(RunDirectory opened, RunDirectory::open(options.out));
  prepared.directory.emplace(std::move(opened));
  return okStatus();
}

/// A new run's folder, made when nothing can go wrong any more.
static Status makeDirectory(const Options &options, Prepared &prepared) {
  QWEN_RETURN_IF_ERROR(lockDirectory(options, prepared));
  // Another run may have come and gone since the folder was looked at.
  if (listCheckpoints(options.out).empty())
    return okStatus();
  return makeError(StatusCode::FailedPrecondition,
                   "'{}' got checkpoints of another run meanwhile",
                   options.out);
}

/// Whether the plan's gradients take the step's micro-batches.
static Status checkGradients(const Plan &plan, const TrainerOptions &options) {
  for (const PlanBucket &bucket : plan.buckets())
    QWEN_RETURN_IF_ERROR(checkMicroBatches(bucket.gradient.type.dtype, options,
                                           plan.info().worldSize));
  return okStatus();
}

/// Everything that can be known to be wrong before weights are loaded. Writes
/// nothing but the lock of a resumed run.
static Status prepare(Session &session, const Plan &plan, Prepared &prepared) {
  const Options &options = session.options;
  Communicator &ranks = *session.ranks;
  QWEN_RETURN_IF_ERROR(ranks.agree(checkGradients(plan, options.trainer)));
  QWEN_RETURN_IF_ERROR(ranks.agree(checkWritableDirectory(options.out)));
  QWEN_RETURN_IF_ERROR(openData(session, plan, prepared));
  // A resumed run's folder exists; it is locked before it is looked at.
  bool isLocking = session.isFirst() && options.resume && !options.dryRun &&
                   !listCheckpoints(options.out).empty();
  QWEN_RETURN_IF_ERROR(
      ranks.agree(isLocking ? lockDirectory(options, prepared) : okStatus()));
  QWEN_ASSIGN_OR_RETURN(prepared.start, agreeOnStart(session));
  const std::string &weights = prepared.start.checkpoint.empty()
                                   ? options.weights
                                   : prepared.start.checkpoint;
  if (!weights.empty())
    QWEN_RETURN_IF_ERROR(openSource(session, weights));
  QWEN_RETURN_IF_ERROR(ranks.agree(collectSideFiles(session)));
  QWEN_RETURN_IF_ERROR(openEngine(session, plan));
  return ranks.agree(checkFiles(session, prepared.start));
}

/// A short trial of a long run's options is no fault, but should be known.
static void warnOfShortRun(const Session &session, int64_t steps) {
  const StepSpan &warmup = session.options.trainer.schedule.warmup;
  if (!warmup.isRatio && warmup.value > double(steps))
    print(session.log,
          "warning: a warm-up of {} steps in a run of {}: the learning rate "
          "never reaches --lr\n",
          warmup.value, steps);
}

/// Ranks with other files or options would wait for each other forever, or
/// train on what nobody meant.
static Status checkSameRun(const Session &session, const Prepared &prepared,
                           const Trainer &trainer) {
  const RunOptions &run = session.options.run;
  const RunIdentity &identity = trainer.state().identity;
  const std::pair<const char *, std::string> items[] = {
      {"plan", fmt::format("{:016x}",
                           session.engine->device().plan().info().contentHash)},
      {"--data", fmt::format("{:016x}", identity.dataHash)},
      {"--eval", prepared.evalData
                     ? fmt::format("{:016x}", prepared.evalData->contentHash())
                     : "none"},
      {"options",
       fmt::format("seed {}, packs a step {}, every {} and {}, {} not finite, "
                   "{}",
                   identity.seed, identity.accumulation, run.evalEvery,
                   run.saveEvery, run.maxNonFinite, run.optionsText)}};
  for (const auto &[what, mine] : items) {
    QWEN_ASSIGN_OR_RETURN(std::string first, session.ranks->firstText(mine));
    QWEN_RETURN_IF_ERROR(session.ranks->agree(
        mine == first ? okStatus()
                      : makeError(StatusCode::FailedPrecondition,
                                  "{}: expected those of rank 0 ({}), found "
                                  "{}",
                                  what, first, mine)));
  }
  return okStatus();
}

static StatusOr<Trainer> makeTrainer(Session &session,
                                     const Prepared &prepared) {
  QWEN_ASSIGN_OR_RETURN(
      Trainer trainer,
      agreed(session, Trainer::create(*session.engine, *prepared.data,
                                      session.options.trainer)));
  if (!prepared.start.checkpoint.empty())
    QWEN_RETURN_IF_ERROR(
        session.ranks->agree(trainer.restore(prepared.start.state)));
  QWEN_RETURN_IF_ERROR(checkSameRun(session, prepared, trainer));
  printTraining(session, trainer);
  warnOfShortRun(session, trainer.totalSteps());
  if (trainer.finished())
    print(session.log, "nothing to do: '{}' has step {} of {}\n",
          prepared.start.checkpoint, trainer.state().step,
          trainer.totalSteps());
  return trainer;
}

Status qwen::dryRun(Session &session, const Plan &plan) {
  Prepared prepared;
  QWEN_RETURN_IF_ERROR(prepare(session, plan, prepared));
  QWEN_ASSIGN_OR_RETURN(Trainer trainer, makeTrainer(session, prepared));
  print(session.log, "dry run: plan, data, weights, memory and output are "
                     "good; nothing was trained or written\n");
  return okStatus();
}

Status qwen::train(Session &session, const Plan &plan,
                   const std::function<bool()> &stopRequested) {
  Prepared prepared;
  QWEN_RETURN_IF_ERROR(prepare(session, plan, prepared));
  QWEN_ASSIGN_OR_RETURN(Trainer trainer, makeTrainer(session, prepared));
  if (trainer.finished())
    return okStatus();
  QWEN_RETURN_IF_ERROR(loadState(session, prepared.start));
  bool isMaking = session.isFirst() && !prepared.directory;
  QWEN_RETURN_IF_ERROR(session.ranks->agree(
      isMaking ? makeDirectory(session.options, prepared) : okStatus()));
  return runTraining(session, trainer, prepared.evalData,
                     prepared.directory ? &*prepared.directory : nullptr,
                     stopRequested);
}
