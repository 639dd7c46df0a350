//===- RankTrainer.cpp - Trains on the ranks that were started ------------===//
//
// RankTrainer PLAN DATA STEPS PACKS_PER_STEP OUT [WAY], alone or under
// mpirun: STEPS steps (0: one epoch) from random weights, no weight decay; on a
// GPU by graphs or, WAY being `plain`, by launches. With `hang` the GPU of rank
// 1 does nothing any more from step 3 on. Rank 0 writes what each step reported
// to OUT.steps, every rank r its slices of the initial and of the trained
// tensors to OUT.r (RankFiles.h).
//
//===----------------------------------------------------------------------===//

#include "OccupyGpu.h"
#include "RankFiles.h"

#include "runtime/trainer/Initialize.h"
#include "runtime/trainer/PlanEngine.h"
#include "runtime/trainer/Trainer.h"

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

using namespace qwen;

namespace {

/// What the arguments say.
struct Work {
  std::string plan, data, out;
  TrainerOptions options;
  std::string way; ///< "plain" launches, gathers by "nccl", "hang", or nothing
};

TrainerOptions trainerOptions(int64_t steps, int64_t packs) {
  TrainerOptions options;
  options.steps = steps;
  options.epochs = steps == 0 ? 1 : 0;
  options.packsPerStep = packs;
  options.schedule = {
      ScheduleKind::Constant, ranktest::learningRate, 0, {}, {}};
  // The update is then a smooth function of the gradient: see RanksTest.
  options.adamw.epsilon = ranktest::epsilon;
  options.adamw.weightDecay = 0;
  options.adamw.maxGradNorm = 0;
  return options;
}

/// Masters where there are some, else values.
StatusOr<std::vector<ranktest::Slice>> slices(PlanEngine &engine) {
  std::vector<ranktest::Slice> result;
  for (const ParameterView &view : engine.parameters()) {
    QWEN_ASSIGN_OR_RETURN(ranktest::Slice slice, ranktest::sliceOf(view));
    result.push_back(std::move(slice));
  }
  return result;
}

StatusOr<PlanEngine> makeEngine(const Work &work, Communicator &ranks) {
  QWEN_ASSIGN_OR_RETURN(Plan plan, Plan::load(work.plan));
  ExecutorOptions options;
  options.poison = true;
  options.hugePages = false;
  options.graph = work.way != "plain";
  options.copyGathers = work.way != "nccl";
  options.ranks = &ranks;
  return PlanEngine::create(plan, options);
}

Status trainAndWrite(const Work &work, PlanEngine &engine,
                     Communicator &ranks) {
  QWEN_ASSIGN_OR_RETURN(TokenDataset data,
                        TokenDataset::open(work.data, engine.vocabSize()));
  QWEN_RETURN_IF_ERROR(initializeParameters(engine, 1));
  QWEN_ASSIGN_OR_RETURN(std::vector<ranktest::Slice> before, slices(engine));
  QWEN_ASSIGN_OR_RETURN(Trainer trainer,
                        Trainer::create(engine, data, work.options));
  std::vector<ranktest::Step> steps;
  while (!trainer.finished()) {
#ifdef QWEN_TEST_CUDA
    if (work.way == "hang" && steps.size() == 2 && ranks.rank() == 1)
      if (const char *reason = ranktest::occupyGpu())
        return makeError(StatusCode::Internal, "cannot hang: {}", reason);
#endif
    StepResult result;
    QWEN_RETURN_IF_ERROR(trainer.step(result));
    steps.push_back({result.loss, result.gradNorm, double(result.packs),
                     double(result.tokens), double(result.supervised),
                     result.contextPairs, double(result.microBatches),
                     double(trainer.state().updates), 0});
    // Of the weights after the step.
    QWEN_ASSIGN_OR_RETURN(EvalResult evaluated, evaluate(engine, data));
    steps.back().evaluation = evaluated.loss;
  }
  QWEN_ASSIGN_OR_RETURN(std::vector<ranktest::Slice> after, slices(engine));
  QWEN_RETURN_IF_ERROR(ranktest::writeSlices(
      fmt::format("{}.{}", work.out, ranks.rank()), before, after));
  return ranks.rank() == 0 ? ranktest::writeSteps(work.out + ".steps", steps)
                           : okStatus();
}

/// Ends the process: the engine of a rank that failed would wait for the
/// others, who are to hear of it first.
[[noreturn]] void fail(const Status &status, Communicator &ranks) {
  ranks.fail(status);
  std::fprintf(stderr, "%s\n", status.message().c_str());
  _exit(1);
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 6 && argc != 7)
    return 2;
  Work work{argv[1], argv[2], argv[5],
            trainerOptions(std::atoll(argv[3]), std::atoll(argv[4])),
            argc == 7 ? argv[6] : ""};
  CommunicatorOptions options;
  if (work.way == "hang")
    options.rankTimeout = 5;
  options.onLostRank = [](const std::string &line) {
    std::fprintf(stderr, "%s\n", line.c_str());
    _exit(1);
  };
  auto joined = joinRanks(options);
  if (!joined.ok()) {
    std::fprintf(stderr, "%s\n", joined.status().message().c_str());
    return 1;
  }
  Communicator &ranks = *joined ? **joined : selfCommunicator();
  {
    auto engine = makeEngine(work, ranks);
    Status status =
        engine.ok() ? trainAndWrite(work, *engine, ranks) : engine.status();
    if (!status.ok())
      fail(status, ranks);
  }
  if (Status status = ranks.leave(); !status.ok())
    fail(status, ranks);
  return 0;
}
