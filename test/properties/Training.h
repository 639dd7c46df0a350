//===- Training.h - Steps of a case on one rank or several -----*- C++ -*-===//
//
// Everything that a few steps of training give, put together from all ranks.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_PROPERTIES_TRAINING_H
#define QWEN_TEST_PROPERTIES_TRAINING_H

#include "Case.h"

#include "test/e2e/Model.h"
#include "test/e2e/SmoothUpdates.h"

namespace qwen::property {

/// What a plan trains on.
struct Inputs {
  std::vector<e2e::TestDocument> documents;
  Split split;
  e2e::Tensors weights;
  float lossScale = 1;
};

/// What a step gives.
struct Step {
  std::vector<std::vector<float>> nll; ///< by document
  e2e::Tensors gradients;
  std::array<float, 4> stats{}; ///< norm, clip, finite, 0
  e2e::Tensors state;           ///< after the update (Model::state)
};

struct Trained {
  e2e::Tensors start; ///< before the first step (Model::state)
  std::vector<Step> steps;
};

/// Constants of the updates of a case.
struct Optimizer {
  e2e::SmoothAdamW adamw;
  /// Weights after an update are as close as gradients are.
  bool isSmooth = true;
};

/// The micro-steps of one step on one rank: losses and gradients.
Step runMicroSteps(e2e::Model &model, const Inputs &inputs);
/// What the ranks of a plan for `ranks` must give: the packs' gradients one by
/// one, added in float64 in the order of the ranks and rounded once a round.
Step runAsRanks(e2e::Model &model, const Inputs &inputs, int ranks);
/// Number `number` (from 0) of the updates of a run; fills stats and state.
void runUpdate(e2e::Model &model, const Optimizer &optimizer, int number,
               Step &step);

/// Options under which memory that nobody wrote shows.
ExecutorOptions executorOptions(int threads);

/// `steps` steps on one rank.
StatusOr<Trained> train(const Plan &plan, const ExecutorOptions &options,
                        const Inputs &inputs, const Optimizer &optimizer,
                        int steps);

/// Where training on ranks begins and what it leaves.
struct RankRun {
  int firstStep = 0;
  int steps = 2;
  /// Checkpoint folders; empty: none. `inputs.weights` are not looked at where
  /// training goes on from one.
  std::string resumeFrom, saveTo;
};
/// The same on the ranks of the plan, which are threads of this process.
StatusOr<Trained> trainOnRanks(const Plan &plan, const Inputs &inputs,
                               const Optimizer &optimizer, const RankRun &run);

} // namespace qwen::property

#endif // QWEN_TEST_PROPERTIES_TRAINING_H
