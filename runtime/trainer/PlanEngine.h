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
  void microStep() override { executor.run(microStepProgram); }
  void update() override { executor.run(updateProgram); }
  void evaluate() override { executor.run(evalProgram); }

private:
  explicit PlanEngine(Executor made) : executor(std::move(made)) {}
  Status bindPrograms();
  Status bindInputs();
  Status bindOutputs();
  void bindParameters();

  Executor executor;
  int microStepProgram = -1, updateProgram = -1, evalProgram = -1;
  EngineBuffers bound;
  std::vector<ParameterView> views;
  std::vector<ParameterRole> parts;
};

} // namespace qwen

#endif // QWEN_RUNTIME_TRAINER_PLANENGINE_H
