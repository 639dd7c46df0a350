//===- Profile.cpp - Where the time of a step goes ------------------------===//

#include "Session.h"

#include "runtime/data/Packing.h"
#include "runtime/profile/MeasureProfile.h"
#include "runtime/support/Publish.h"
#include "runtime/trainer/Trainer.h"

#include <cstring>
#include <filesystem>

using namespace qwen;

/// Steps before the timed ones: pages are touched, caches and threads warm.
static constexpr int64_t warmUpSteps = 3;

/// Element type of the plan's matrix products.
static DType productType(const Plan &plan) {
  for (size_t i = 0; i < plan.programs().size(); ++i)
    for (const LaunchFacts &launch : launchFacts(plan, int(i)))
      if (launch.kernel == "gemm")
        return launch.operands.front().type.dtype;
  return DType::F32;
}

/// The first micro-batches of the data, as many as a step has.
static StatusOr<std::vector<Batch>> firstBatches(const Session &session,
                                                 const TokenDataset &data) {
  PackLimits limits = session.engine->limits();
  QWEN_ASSIGN_OR_RETURN(
      EpochPacking packing,
      EpochPacking::create(data, limits, session.options.trainer.seed, 0));
  std::vector<Batch> batches;
  for (int64_t i = 0; i < session.options.trainer.accumulation; ++i)
    QWEN_RETURN_IF_ERROR(fillBatch(data, packing.pack(i % packing.packs()),
                                   limits, batches.emplace_back()));
  return batches;
}

/// Micro-steps and the update; the batches must outlive the result.
static std::vector<StepPart> makeStep(const Session &session,
                                      const std::vector<Batch> &batches) {
  const Plan &plan = session.engine->device().plan();
  const EngineInputs &inputs = session.engine->inputs();
  int64_t supervised = 0;
  for (const Batch &batch : batches)
    supervised += batch.supervised;
  auto scale = float(1 / double(std::max<int64_t>(supervised, 1)));
  std::vector<StepPart> step;
  for (const Batch &batch : batches) {
    const char *program = step.empty() ? "first_micro_step" : "micro_step";
    step.push_back({*plan.findProgram(program), batch.contextPairs,
                    [&inputs, &batch, scale] {
                      setInputs(batch, inputs);
                      *inputs.lossScale.as<float>() = scale;
                    }});
  }
  const TrainerOptions &options = session.options.trainer;
  auto hyper = makeHyper(options.adamw, options.schedule.peak, 1);
  step.push_back({*plan.findProgram("update"), 0, [&inputs, &options, hyper] {
                    std::memcpy(inputs.hyper.data, hyper.data(), sizeof(hyper));
                    inputs.rng.as<int32_t>()[0] = int32_t(options.seed);
                    inputs.rng.as<int32_t>()[1] = 0;
                  }});
  return step;
}

/// What stands below the tables.
static std::string describeStep(const Session &session,
                                const StepMeasurement &measured,
                                const std::vector<Batch> &batches) {
  ProfileRow total = totalOf(rowsByStage(measured.profile));
  bool gpu = measured.counts.driverCalls > 0;
  std::string text = fmt::format("a step: {:.6g} launches", total.calls);
  if (gpu)
    text += fmt::format(", {} GPU kernels, {} driver calls",
                        measured.counts.kernels, measured.counts.driverCalls);
  int64_t tokens = 0;
  double flops = 0;
  for (const Batch &batch : batches) {
    tokens += batch.used;
    flops +=
        session.engine->trainingFlops(double(batch.used), batch.contextPairs);
  }
  double milliseconds = measured.replayMilliseconds;
  // Launches of two streams run side by side.
  double timed = measured.computeMilliseconds + measured.exposedMilliseconds;
  if (measured.communicationMilliseconds > 0)
    text += fmt::format(
        "\nexposed communication: {:.3f} ms a step ({:.1f} %), of {:.3f} ms of "
        "communication beside {:.3f} ms of computing",
        measured.exposedMilliseconds,
        100 * measured.exposedMilliseconds / std::max(timed, 1e-9),
        measured.communicationMilliseconds, measured.computeMilliseconds);
  return text +
         fmt::format(
             "\n{}{}: {:.3f} ms a step; its launches, timed one by one: {:.3f} "
             "ms ({:+.1f} %)\n{:.0f} tokens/s, {:.4g} model TFLOP/s\n",
             session.ranks->size() > 1 ? "rank 0, " : "",
             gpu ? "as replayed graphs" : "without timing launches",
             milliseconds, timed, 100 * (timed / milliseconds - 1),
             double(tokens) / milliseconds * 1e3, flops / milliseconds * 1e-9);
}

/// Where the trace goes: --profile-trace, else the output folder.
static std::string tracePath(const Options &options) {
  if (!options.profileTrace.empty())
    return options.profileTrace;
  return (std::filesystem::path(options.out) / "profile.json").string();
}

/// Known before the steps are measured. The output folder is made, as that of
/// training is.
static Status checkTrace(const Options &options) {
  std::string path = tracePath(options);
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (folder.empty())
    folder = ".";
  if (!options.profileTrace.empty() &&
      !std::filesystem::is_directory(folder, error))
    return makeError(StatusCode::NotFound, "no folder for the trace '{}'",
                     path);
  return ensureWritableDirectory(folder.string());
}

Status qwen::profile(Session &session, const Plan &plan) {
  const Options &options = session.options;
  QWEN_RETURN_IF_ERROR(session.ranks->agree(
      session.isFirst() ? checkTrace(options) : okStatus()));
  QWEN_ASSIGN_OR_RETURN(TokenDataset data, openBenchmarkData(session, plan));
  if (!options.weights.empty())
    QWEN_RETURN_IF_ERROR(openSource(session, options.weights));
  // Before the plan takes its memory.
  QWEN_ASSIGN_OR_RETURN(Ceilings ceilings,
                        measureCeilings(plan.info().target, productType(plan),
                                        options.device,
                                        session.ranks->localRank()));
  QWEN_RETURN_IF_ERROR(openEngine(session, plan));
  QWEN_RETURN_IF_ERROR(loadWeights(session));
  QWEN_ASSIGN_OR_RETURN(std::vector<Batch> batches,
                        firstBatches(session, data));
  std::vector<StepPart> step = makeStep(session, batches);
  QWEN_ASSIGN_OR_RETURN(StepMeasurement measured,
                        measureStep(session.engine->device(), step, warmUpSteps,
                                    options.profile));
  if (!session.isFirst())
    return okStatus();
  print(stdout,
        "\n{}, mean of {} steps\nmax: {:.4g} TFLOP/s and {:.3g} TB/s, of "
        "{}\n\n{}\n{}",
        session.engine->device().deviceName(), options.profile,
        ceilings.flops * 1e-12, ceilings.bytes * 1e-12, ceilings.how,
        profileTables(measured.profile, ceilings),
        describeStep(session, measured, batches));
  std::string path = tracePath(options);
  QWEN_RETURN_IF_ERROR(publishFile(path, profileTrace(measured.profile)));
  print(stdout, "trace: {} (chrome://tracing or ui.perfetto.dev)\n", path);
  return okStatus();
}
