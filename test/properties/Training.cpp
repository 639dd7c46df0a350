//===- Training.cpp - Steps of a case on one rank or several --------------===//

#include "Training.h"

#include "test/unit/runtime/ThreadRanks.h"

#include <algorithm>
#include <mutex>

using namespace qwen;
using namespace qwen::property;
using e2e::Model;
using e2e::Tensors;

//===----------------------------------------------------------------------===//
// One rank
//===----------------------------------------------------------------------===//

/// Runs a micro-batch and puts its losses into `nll`.
static void runPack(Model &model, const Inputs &inputs,
                    const std::vector<size_t> &members,
                    std::vector<std::vector<float>> &nll) {
  std::vector<e2e::TestDocument> chosen;
  for (size_t member : members)
    chosen.push_back(inputs.documents[member]);
  Batch pack = e2e::makePack(chosen, model.limits());
  std::vector<float> losses = model.microStep(pack, inputs.lossScale);
  for (size_t i = 0; i < members.size() && !losses.empty(); ++i)
    nll[members[i]] = e2e::sliceOf(losses, pack, i);
}

Step qwen::property::runMicroSteps(Model &model, const Inputs &inputs) {
  Step step;
  step.nll.resize(inputs.documents.size());
  model.beginStep();
  for (const std::vector<size_t> &members : inputs.split)
    runPack(model, inputs, members, step.nll);
  step.gradients = model.gradients();
  return step;
}

/// The packs of a round, with one for each rank; those that are missing are
/// empty.
static std::vector<std::vector<size_t>> roundOf(const Split &split,
                                                size_t round, int ranks) {
  std::vector<std::vector<size_t>> packs{size_t(ranks)};
  for (size_t rank = 0; rank < size_t(ranks); ++rank)
    if (size_t pack = round * size_t(ranks) + rank; pack < split.size())
      packs[rank] = split[pack];
  return packs;
}

static size_t countRounds(const Split &split, int ranks) {
  return (split.size() + size_t(ranks) - 1) / size_t(ranks);
}

Step qwen::property::runAsRanks(Model &model, const Inputs &inputs, int ranks) {
  Step step;
  step.nll.resize(inputs.documents.size());
  for (size_t round = 0; round < countRounds(inputs.split, ranks); ++round) {
    std::map<std::string, std::vector<double>> sums;
    if (round > 0)
      for (const auto &[name, values] : step.gradients)
        sums[name].assign(values.begin(), values.end());
    for (const auto &members : roundOf(inputs.split, round, ranks)) {
      model.beginStep();
      runPack(model, inputs, members, step.nll);
      for (const auto &[name, values] : model.gradients()) {
        std::vector<double> &sum = sums[name];
        sum.resize(values.size(), 0.0);
        std::transform(values.begin(), values.end(), sum.begin(), sum.begin(),
                       [](float term, double so) { return so + term; });
      }
    }
    for (const auto &[name, sum] : sums)
      step.gradients[name].assign(sum.begin(), sum.end());
  }
  return step;
}

void qwen::property::runUpdate(Model &model, const Optimizer &optimizer,
                               int number, Step &step) {
  step.stats = model.update(optimizer.adamw.hyper(number + 1), number);
  step.state = model.state();
}

ExecutorOptions qwen::property::executorOptions(int threads) {
  ExecutorOptions options;
  options.threads = threads;
  options.hugePages = false;
  options.poison = true;
  return options;
}

StatusOr<Trained> qwen::property::train(const Plan &plan,
                                        const ExecutorOptions &options,
                                        const Inputs &inputs,
                                        const Optimizer &optimizer, int steps) {
  QWEN_ASSIGN_OR_RETURN(Model model, Model::create(plan, options));
  QWEN_RETURN_IF_ERROR(model.setWeights(inputs.weights));
  Trained trained;
  trained.start = model.state();
  for (int i = 0; i < steps; ++i) {
    trained.steps.push_back(runMicroSteps(model, inputs));
    runUpdate(model, optimizer, i, trained.steps.back());
  }
  return trained;
}

//===----------------------------------------------------------------------===//
// Ranks
//===----------------------------------------------------------------------===//

namespace {

/// Puts the slices of the ranks together.
class Joiner {
public:
  explicit Joiner(const Plan &plan) : plan(plan) {}

  void add(const Model &model, const Tensors &slices, Tensors &whole) {
    std::lock_guard lock(mutex);
    for (const auto &[name, slice] : slices) {
      // "moment1 model.norm.weight"
      std::string parameter = name.substr(name.rfind(' ') + 1);
      const PlanParameter &entry =
          plan.parameters()[size_t(*plan.findParameter(parameter))];
      std::vector<float> &target = whole[name];
      target.resize(size_t(entry.type.elements()));
      std::copy(slice.begin(), slice.end(),
                target.begin() + model.firstElement(parameter));
    }
  }

private:
  const Plan &plan;
  std::mutex mutex;
};

} // namespace

static Status trainRank(Communicator &ranks, const Plan &plan,
                        const Inputs &inputs, const Optimizer &optimizer,
                        const RankRun &run, Joiner &joiner, Trained &trained) {
  ExecutorOptions options = executorOptions(1);
  options.ranks = &ranks;
  auto made = Model::create(plan, options);
  // Whoever fails alone would leave the others waiting.
  QWEN_RETURN_IF_ERROR(ranks.agree(made.status()));
  Model &model = *made;
  QWEN_RETURN_IF_ERROR(ranks.agree(run.resumeFrom.empty()
                                       ? model.setWeights(inputs.weights)
                                       : model.resume(run.resumeFrom)));
  joiner.add(model, model.state(), trained.start);
  for (int i = 0; i < run.steps; ++i) {
    Step &step = trained.steps[size_t(i)];
    model.beginStep();
    for (size_t round = 0; round < countRounds(inputs.split, ranks.size());
         ++round)
      runPack(model, inputs,
              roundOf(inputs.split, round, ranks.size())[size_t(ranks.rank())],
              step.nll);
    joiner.add(model, model.gradients(), step.gradients);
    Step mine;
    runUpdate(model, optimizer, run.firstStep + i, mine);
    joiner.add(model, mine.state, step.state);
    if (ranks.rank() == 0)
      step.stats = mine.stats;
  }
  return run.saveTo.empty() ? okStatus() : model.save(run.saveTo);
}

StatusOr<Trained> qwen::property::trainOnRanks(const Plan &plan,
                                               const Inputs &inputs,
                                               const Optimizer &optimizer,
                                               const RankRun &run) {
  Trained trained;
  trained.steps.resize(size_t(run.steps));
  for (Step &step : trained.steps)
    step.nll.resize(inputs.documents.size());
  Joiner joiner(plan);
  ThreadRanks group(int(plan.info().worldSize));
  for (const Status &status : group.run([&](Communicator &ranks) {
         return trainRank(ranks, plan, inputs, optimizer, run, joiner, trained);
       }))
    QWEN_RETURN_IF_ERROR(status);
  return trained;
}
