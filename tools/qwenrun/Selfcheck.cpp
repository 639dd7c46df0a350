//===- Selfcheck.cpp - Does a plan compute what it should here? -----------===//

#include "Session.h"

#include "qwen/Plan/Target.h"
#include "runtime/selfcheck/EngineChecks.h"
#include "runtime/selfcheck/OperatorChecks.h"
#include "runtime/trainer/Initialize.h"

#include <chrono>

using namespace qwen;

using Rows = std::vector<CheckRow>;

static void append(Rows &rows, Rows more) {
  rows.insert(rows.end(), std::make_move_iterator(more.begin()),
              std::make_move_iterator(more.end()));
}

/// A micro-step by single launches, whose times nobody looks at.
static PlainMicroStep plainMicroStep(PlanEngine &engine) {
  Executor &device = engine.device();
  return [&device](EngineRun::Program which) -> StatusOr<Buffer> {
    bool isFirst = which == EngineRun::Program::FirstMicroStep;
    int program =
        *device.plan().findProgram(isFirst ? "first_micro_step" : "micro_step");
    std::vector<float> times(
        size_t(device.plan().programs()[size_t(program)].launches));
    QWEN_RETURN_IF_ERROR(device.runTimed(program, times));
    return *device.output(program, "nll");
  };
}

/// Checks of the whole model; its memory is given back at the end.
static StatusOr<Rows> checkModel(const Session &session, const Plan &plan,
                                 TargetKind kind) {
  QWEN_ASSIGN_OR_RETURN(PlanEngine engine,
                        PlanEngine::create(plan, executorOptions(session)));
  print(session.log, "{}; weights: random\n", engine.device().deviceName());
  uint32_t seed = session.options.trainer.seed;
  QWEN_RETURN_IF_ERROR(initializeParameters(engine, seed));
  Rows rows;
  QWEN_ASSIGN_OR_RETURN(Rows isolation, checkIsolation(engine, seed));
  append(rows, std::move(isolation));
  if (kind == TargetKind::Cuda) {
    QWEN_ASSIGN_OR_RETURN(Rows replay,
                          checkReplay(engine, plainMicroStep(engine), seed));
    append(rows, std::move(replay));
  } else {
    rows.push_back(skippedRow("graph replay", "a CPU plan has no graph"));
  }
  QWEN_ASSIGN_OR_RETURN(Rows steps, checkRepeatability(engine, seed));
  append(rows, std::move(steps));
  return rows;
}

/// Checks of single kernels.
static StatusOr<Rows> checkKernels(const Session &session, const Plan &plan,
                                   TargetKind kind) {
  OperatorShapes shapes = OperatorShapes::of(plan);
  OperatorCheckOptions options;
  options.seed = session.options.trainer.seed;
  if (kind == TargetKind::Cuda) {
    QWEN_ASSIGN_OR_RETURN(auto gpu, createCudaKernelRunner());
    return checkAgainstCpu(shapes, *gpu, options);
  }
  auto cpu = createCpuKernelRunner();
  QWEN_ASSIGN_OR_RETURN(Rows rows, checkAgainstDouble(shapes, *cpu, options));
  QWEN_ASSIGN_OR_RETURN(Rows differences,
                        checkAgainstDifferences(shapes, *cpu, options));
  append(rows, std::move(differences));
  return rows;
}

Status qwen::selfcheck(const Session &session, const Plan &plan) {
  if (plan.info().worldSize > 1)
    return session.ranks->agree(
        makeError(StatusCode::FailedPrecondition,
                  "--selfcheck needs a plan for one rank; this one is for {}",
                  plan.info().worldSize));
  auto begin = std::chrono::steady_clock::now();
  TargetKind kind = targetKind(plan.info().target).value_or(TargetKind::Cpu);
  QWEN_ASSIGN_OR_RETURN(Rows rows, checkModel(session, plan, kind));
  QWEN_ASSIGN_OR_RETURN(Rows kernels, checkKernels(session, plan, kind));
  append(rows, std::move(kernels));
  std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - begin;
  int64_t compared = countCompared(rows), misses = countMisses(rows);
  print(stdout, "{}{} of {} checks passed in {:.1f} s\n", checkTable(rows),
        compared - misses, compared, taken.count());
  if (misses == 0)
    return okStatus();
  return makeError(StatusCode::FailedPrecondition,
                   "self-check: {} of {} checks missed their bound", misses,
                   compared);
}
