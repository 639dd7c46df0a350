//===- Step.cpp - Times of training steps of whole plans ------------------===//
//
// One line of JSON a plan, and one for what a block of layers costs where
// several plans differ in depth alone. Under mpirun or srun the ranks run a
// sharded plan together and the first one prints.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"

#include "runtime/benchmark/Documents.h"
#include "runtime/benchmark/StepBenchmark.h"
#include "runtime/profile/Implementations.h"
#include "runtime/support/File.h"
#include "runtime/support/Json.h"
#include "runtime/support/Print.h"
#include "runtime/trainer/Initialize.h"

#include <filesystem>
#include <memory>
#include <unistd.h>

using namespace qwen;
using namespace qwen::bench;

namespace {

struct StepOptions {
  std::vector<std::string> plans;
  std::string planDirectory = ".";
  std::string model = "qwen3.8-27b";
  std::vector<int64_t> layers;
  int64_t tokens = 8192;
  std::vector<int64_t> documents; ///< empty: the comparison's
  bool plainLaunches = false;
  bool ncclGathers = false;
  double rankTimeout = 30; ///< seconds
  Communicator *ranks = &selfCommunicator();
  StepBenchmarkOptions benchmark;

  bool isFirst() const { return ranks->rank() == 0; }
  /// Of a step, over all ranks.
  int64_t packs() const {
    return ranks->size() * benchmark.trainer.accumulation;
  }
};

/// A plan that was measured.
struct PlanTime {
  std::string family; ///< what plans that differ in depth alone share
  int64_t layers = 0;
  double milliseconds = 0;
};

} // namespace

/// Layers of the block whose cost the difference of two depths tells: the
/// period of attention layers.
static constexpr int64_t blockLayers = 4;

/// The plans to run: those named, then those of --layers as make_plans calls
/// them.
static StatusOr<std::vector<std::string>>
planPaths(const StepOptions &options) {
  std::vector<std::string> paths = options.plans;
  for (int64_t layers : options.layers)
    paths.push_back(
        (std::filesystem::path(options.planDirectory) /
         fmt::format("{}-{}l-{}.fb", options.model, layers, options.tokens))
            .string());
  if (paths.empty())
    return invalidArgument("expected plans, or --layers");
  for (size_t i = options.plans.size(); i < paths.size(); ++i)
    if (!std::filesystem::exists(paths[i]))
      return makeError(StatusCode::NotFound,
                       "no plan '{}'; tools/bench/make_plans -o {} {}:{} "
                       "compiles it",
                       paths[i], options.planDirectory, options.model,
                       options.layers[i - options.plans.size()]);
  return paths;
}

static std::string factOf(const Plan &plan, std::string_view name) {
  for (const PlanFact &fact : plan.info().model)
    if (fact.name == name)
      return fact.text;
  return "";
}

/// Depth of the plan's model; 0 where it does not say.
static int64_t layersOf(const Plan &plan) {
  std::string depth = factOf(plan, "num_hidden_layers");
  return depth.empty() ? 0 : std::stoll(depth);
}

static void printMeasured(const std::string &path, const Plan &plan,
                          PlanEngine &engine, const StepOptions &options,
                          const StepMeasurement &measured) {
  const PlanInfo &info = plan.info();
  int64_t layers = layersOf(plan);
  qwen::print(stdout,
              "{{\"bench\": \"step\", \"side\": \"ours\", \"plan\": {}, "
              "\"model\": {}, \"target\": {}, \"flags\": {}, \"device\": {}, "
              "\"layers\": {}, \"documents\": [{}], {}}}\n",
              jsonString(std::filesystem::path(path).filename().string()),
              jsonString(factOf(plan, "name")), jsonString(info.target),
              jsonString(info.compilerFlags),
              jsonString(engine.device().deviceName()),
              layers ? std::to_string(layers) : "null",
              fmt::join(options.documents, ", "), jsonFields(measured));
}

/// The value where all ranks have one; else the error of the first that has
/// none. For what every rank does alone.
template <typename T>
static StatusOr<T> agreed(const StepOptions &options, StatusOr<T> mine) {
  QWEN_RETURN_IF_ERROR(options.ranks->agree(mine.status()));
  return mine;
}

static StatusOr<PlanEngine> makeEngine(const Plan &plan,
                                       const StepOptions &options) {
  ExecutorOptions executor;
  executor.graph = !options.plainLaunches;
  executor.copyGathers = !options.ncclGathers;
  executor.ranks = options.ranks;
  StatusOr<PlanEngine> engine = PlanEngine::create(plan, executor);
  // On GPUs the ranks meet in there.
  if (plan.info().targetKind == TargetKind::Cpu)
    return agreed(options, std::move(engine));
  return engine;
}

static StatusOr<PlanTime> measurePlan(const std::string &path,
                                      const StepOptions &options) {
  QWEN_ASSIGN_OR_RETURN(Plan plan, agreed(options, Plan::load(path)));
  const PlanInfo &info = plan.info();
  QWEN_ASSIGN_OR_RETURN(
      TokenDataset data,
      agreed(options, packsOfStep(options.documents, info, options.packs(),
                                  options.benchmark.trainer.seed)));
  QWEN_ASSIGN_OR_RETURN(PlanEngine engine, makeEngine(plan, options));
  if (std::string warning = engine.device().warning();
      options.isFirst() && !warning.empty())
    print(stderr, "qwen-bench: warning: {}\n", warning);
  QWEN_RETURN_IF_ERROR(
      initializeParameters(engine, options.benchmark.trainer.seed));
  StepBenchmarkOptions benchmark = options.benchmark;
  if (benchmark.peakTflops == 0)
    benchmark.peakTflops = peakTflops(info.targetKind);
  QWEN_ASSIGN_OR_RETURN(StepMeasurement measured,
                        measureSteps(engine, plan, data, benchmark));
  if (options.isFirst())
    printMeasured(path, plan, engine, options, measured);
  PlanTime time;
  time.family = fmt::format("{} {} {} {}", info.target, info.compilerFlags,
                            info.tokens, factOf(plan, "hidden_size"));
  time.layers = layersOf(plan);
  time.milliseconds = measured.medianMilliseconds();
  return time;
}

/// The cost of a block, from the first and the last depth of a family.
static void printBlocks(const std::vector<PlanTime> &times) {
  for (size_t i = 0; i < times.size(); ++i) {
    const PlanTime &shallow = times[i];
    for (size_t j = i + 1; j < times.size(); ++j) {
      const PlanTime &deep = times[j];
      if (deep.family != shallow.family || deep.layers <= shallow.layers)
        continue;
      qwen::print(
          stdout,
          "{{\"bench\": \"block\", \"side\": \"ours\", \"layers\": [{}, "
          "{}], \"block_layers\": {}, \"block_ms\": {:.4f}}}\n",
          shallow.layers, deep.layers, blockLayers,
          (deep.milliseconds - shallow.milliseconds) * blockLayers /
              double(deep.layers - shallow.layers));
    }
  }
}

static Status measurePlans(StepOptions &options) {
  QWEN_ASSIGN_OR_RETURN(std::vector<std::string> paths,
                        agreed(options, planPaths(options)));
  if (options.documents.empty())
    options.documents = options.packs() == 1 ? sevenRagged : sevenHalving;
  std::vector<PlanTime> times;
  for (const std::string &path : paths) {
    StatusOr<PlanTime> time = measurePlan(path, options);
    QWEN_RETURN_IF_ERROR(time.status().withContext(path));
    times.push_back(*time);
    options.benchmark.started = std::chrono::steady_clock::now();
  }
  if (options.isFirst())
    printBlocks(times);
  return okStatus();
}

/// Meets the other ranks where a launcher started any.
static StatusOr<std::unique_ptr<Communicator>> joinOthers(double timeout) {
  CommunicatorOptions options;
  options.rankTimeout = timeout;
  // The main thread may wait for the lost rank forever.
  options.onLostRank = [](const std::string &line) {
    print(stderr, "qwen-bench: error: {}\n", line);
    _exit(1);
  };
  return joinRanks(options);
}

static Status benchSteps(StepOptions options) {
  QWEN_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> joined,
                        joinOthers(options.rankTimeout));
  if (!joined)
    return measurePlans(options);
  options.ranks = joined.get();
  if (!options.isFirst())
    options.benchmark.log = std::fopen("/dev/null", "w");
  if (!options.benchmark.log)
    return makeError(StatusCode::IoError, "cannot open /dev/null");
  Status status = measurePlans(options);
  if (status.ok())
    return joined->leave();
  if (!joined->isAgreed(status)) {
    joined->fail(status);
    return status.withContext(fmt::format("rank {}", joined->rank()));
  }
  // All end by the same error, of which one tells, before another one's end
  // makes the launcher stop it.
  if (options.isFirst())
    print(stderr, "qwen-bench: error: {}\n", status.message());
  (void)joined->leave();
  return Status(status.code(), "");
}

Action bench::addStepCommand(CLI::App &command) {
  auto options = std::make_shared<StepOptions>();
  StepBenchmarkOptions &benchmark = options->benchmark;
  // Small enough that a pack seen again and again is not learned by heart:
  // gradients stay those of training.
  benchmark.trainer.schedule.peak = 1e-6;
  command.add_option("plans", options->plans, "Plans made by qwenc");
  addNumbers(command, "--layers", options->layers, positiveCount,
             "Depths of --model whose plans lie in --plan-dir, shallow "
             "ones first");
  command
      .add_option("--plan-dir", options->planDirectory,
                  "Folder of plans made by tools/bench/make_plans")
      ->needs("--layers");
  command.add_option("--model", options->model, "Config that --layers cuts")
      ->needs("--layers");
  addNumber(command, "--tokens", options->tokens, positiveCount,
            "Tokens of those plans")
      ->needs("--layers");
  addNumbers(command, "--documents", options->documents, positiveCount,
             "Lengths of the documents of a pack; default: seven ragged "
             "ones, or where a step has several packs, seven of which all "
             "packs of a step are made");
  addNumber(command, "--steps", benchmark.steps, positiveCount, "Timed steps");
  addNumber(command, "--warm-up", benchmark.warmUp, positiveCount,
            "Steps before them");
  addNumber(command, "--accumulation", benchmark.trainer.accumulation,
            positiveCount, "Packs of a step and rank");
  addNumber(command, "--lr", benchmark.trainer.schedule.peak, OptionRange(),
            "Learning rate");
  addNumber(command, "--rank-timeout", options->rankTimeout,
            OptionRange::whole(1, 86400),
            "Seconds without a sign of life, or in one launch, after "
            "which a rank counts as lost");
  command.add_flag("--plain-launches", options->plainLaunches,
                   "Launches one by one instead of a replayed graph");
  command.add_flag("--nccl-gathers", options->ncclGathers,
                   "Shards are gathered by NCCL also where GPUs could copy "
                   "them from each other");
  addNumber(command, "--peak-tflops", benchmark.peakTflops, OptionRange(),
            "Dense bf16 peak for MFU = model FLOPs / seconds / peak and "
            "HFU, which counts the FLOPs of all launches; 0: of the "
            "plan's target, where it is known");
  return [options] { return benchSteps(*options); };
}
