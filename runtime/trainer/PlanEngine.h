//===- PlanEngine.h - A plan as the trainer's engine -----------*- C++ -*-===//

#ifndef QWEN_RUNTIME_TRAINER_PLANENGINE_H
#define QWEN_RUNTIME_TRAINER_PLANENGINE_H

#include "runtime/executor/Executor.h"
#include "runtime/trainer/Engine.h"

namespace qwen {

/// The parameters of an executor's plan where they lie, in the plan's order.
std::vector<ParameterView> parameterViews(Executor &executor);

/// Binds the programs `first_micro_step`, `micro_step`, `update` and `eval` of
/// a plan.
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
  const EngineInputs &inputs() const override { return bound; }
  DeviceMemory &memory() override { return executor->memory(); }
  Communicator &ranks() override { return executor->ranks(); }
  double trainingFlops(double tokens, double contextPairs) const override;
  double launchedFlops(int64_t microBatches,
                       double contextPairs) const override;
  StatusOr<EngineRun> start(EngineRun::Program program) override;
  StatusOr<Buffer> finish(EngineRun run) override;
  int64_t keptRuns() const override { return runsInFlight; }
  StatusOr<NonFiniteFinding> findNonFinite(EngineRun::Program program) override;
  /// A CPU runs a program while it is started.
  bool runsAhead() const override { return !executor->memory().isHost(); }

  /// What runs the plan.
  Executor &device() { return *executor; }

private:
  /// FLOPs of the launches of a program, by the cost model.
  struct ProgramFlops {
    double fixed = 0, perPair = 0;
  };

  explicit PlanEngine(std::unique_ptr<Executor> made)
      : executor(std::move(made)) {}
  Status bindPrograms();
  Status bindInputs();
  Status checkOutputs() const;
  void bindParameters();
  ProgramFlops countFlops(int program) const;
  /// Index of a program in the plan.
  int indexOf(EngineRun::Program program) const;

  std::unique_ptr<Executor> executor;
  int firstMicroStepProgram = -1, microStepProgram = -1, updateProgram = -1,
      evalProgram = -1;
  EngineInputs bound;
  std::vector<ParameterView> views;
  std::vector<ParameterRole> parts;
  ProgramFlops microStepFlops; ///< of the first one too
  ProgramFlops updateFlops;
};

} // namespace qwen

#endif // QWEN_RUNTIME_TRAINER_PLANENGINE_H
