//===- Model.h - A plan that a test drives by hand -------------*- C++ -*-===//
//
// Micro-steps, updates and every tensor of a compiled model.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_E2E_MODEL_H
#define QWEN_TEST_E2E_MODEL_H

#include "Harness.h"
#include "Packs.h"
#include "Tensors.h"

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/executor/Executor.h"

#include <array>

namespace qwen::e2e {

/// A plan in memory, or one rank's part of it: then every tensor that is taken
/// out is this rank's slice, and what is put in are whole tensors. Activations,
/// workspace and outputs are filled with NaN before every run, so that nothing
/// unwritten is read unnoticed.
class Model {
public:
  static StatusOr<Model> create(const Plan &plan, int threads = 0);
  /// With options of the test's choice.
  static StatusOr<Model> create(const Plan &plan,
                                const ExecutorOptions &options);
  /// Compiles `spec`, then `create`.
  static StatusOr<Model> build(const PlanSpec &spec, int threads = 0);

  /// Sets all parameters and masters from a checkpoint folder.
  Status load(const std::string &folder);
  /// Sets all parameters and masters; every parameter must be there.
  Status setWeights(const Tensors &weights);
  /// Writes weights and optimizer state as a checkpoint of training, together
  /// with the other ranks.
  Status save(const std::string &folder);
  /// Restores what `save` wrote, of any number of ranks.
  Status resume(const std::string &folder);
  /// Index in the whole parameter of the first element of this rank's slice.
  int64_t firstElement(const std::string &parameter) const;
  /// Draws all parameters (DrawnWeights.h).
  Status drawWeights(uint32_t seed, int64_t keyRows);

  PackLimits limits() const;
  int32_t vocabulary() const;
  /// Names of the parameters with two dimensions: their gradients are matrix
  /// products over tokens, or sums over the tokens of an id.
  std::vector<std::string> matrices() const;

  /// Forward and backward; returns the loss of each token. The first one of a
  /// step overwrites the gradients, which are filled with NaN before it; others
  /// add to them.
  std::vector<float> microStep(const Batch &pack, float lossScale);
  /// Forward only.
  std::vector<float> evaluate(const Batch &pack);
  /// Logits of all tokens, row by row; the plan must have that program.
  std::vector<float> logits(const Batch &pack);
  /// AdamW step number `step` (from 1); returns norm, clip, finite, 0. The next
  /// micro-step begins a step.
  std::array<float, 4> update(const std::array<float, 8> &hyper, int32_t step);

  /// Lets the next micro-step be the first one of a step.
  void beginStep() { isFirst = true; }
  Tensors gradients() const;
  /// Masters where there are some, else parameters.
  Tensors weights() const;
  /// Takes the place of what the micro-steps of a step left.
  Status setGradients(const Tensors &gradients);
  /// Everything that outlives a step: parameters, masters, moments, gradients.
  Tensors state() const;

private:
  explicit Model(std::unique_ptr<Executor> made) : executor(std::move(made)) {}
  void setInput(const char *name, const void *values, size_t bytes);
  int runOn(const char *program, const Batch &pack);
  std::vector<float> outputOf(int program, const char *name) const;
  Status write(const Buffer &target, std::span<const float> values);
  void poisonGradients();
  Tensors collect(Buffer (Executor::*view)(int) const,
                  const std::string &prefix) const;

  std::unique_ptr<Executor> executor;
  bool isFirst = true; ///< the next micro-step begins a step
};

/// Every parameter of a plan, drawn (DrawnWeights.h).
Tensors drawWeights(const Plan &plan, uint32_t seed, int64_t keyRows);

/// A test fixture's model with the weights of test/golden/<config>: those of
/// the checkpoint there, or drawn from the seed in its inputs.
StatusOr<Model> goldenModel(const PlanSpec &spec, int threads = 0);
/// The weights alone.
Status setGoldenWeights(Model &model, const std::string &config);

} // namespace qwen::e2e

#endif // QWEN_TEST_E2E_MODEL_H
