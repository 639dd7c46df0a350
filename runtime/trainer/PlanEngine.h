//===- PlanEngine.h - A plan as the trainer's engine -----------*- C++ -*-===//

#ifndef QWEN_RUNTIME_TRAINER_PLANENGINE_H
#define QWEN_RUNTIME_TRAINER_PLANENGINE_H

#include "runtime/executor/Executor.h"
#include "runtime/trainer/Engine.h"

namespace qwen {

/// Binds the programs `micro_step`, `update` and `eval` of a plan.
class PlanEngine final : public Engine {
public:
  /// FailedPrecondition that names the program, input or output which a
  /// training plan has and this one has not.
  static StatusOr<PlanEngine> create(const Plan &plan,
                                     const ExecutorOptions &options);

  PackLimits limits() const override;
  int64_t vocabSize() const override;
  std::span<ParameterView> parameters() override { return views; }
  std::span<const ParameterRole> roles() const override { return parts; }
  const EngineBuffers &buffers() const override { return bound; }
  double trainingFlops(double tokens, double contextPairs) const override;
  void microStep() override { run(microStepProgram, "nll", bound.microNll); }
  void update() override { run(updateProgram, "stats", bound.stats); }
  void evaluate() override { run(evalProgram, "nll", bound.evalNll); }

private:
  explicit PlanEngine(std::unique_ptr<Executor> made)
      : executor(std::move(made)) {}
  Status bindPrograms();
  Status bindInputs();
  Status checkOutputs() const;
  void bindParameters();
  /// Runs a program and takes one output of this run.
  void run(int program, std::string_view outputName, Buffer &output);

  std::unique_ptr<Executor> executor;
  int microStepProgram = -1, updateProgram = -1, evalProgram = -1;
  EngineBuffers bound;
  std::vector<ParameterView> views;
  std::vector<ParameterRole> parts;
};

} // namespace qwen

#endif // QWEN_RUNTIME_TRAINER_PLANENGINE_H
