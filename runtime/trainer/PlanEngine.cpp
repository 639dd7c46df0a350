//===- PlanEngine.cpp - A plan as the trainer's engine --------------------===//

#include "runtime/trainer/PlanEngine.h"

#include "runtime/profile/LaunchFacts.h"
#include "runtime/trainer/LaunchSearch.h"

using namespace qwen;

StatusOr<PlanEngine> PlanEngine::create(const Plan &plan,
                                        const ExecutorOptions &options) {
  QWEN_ASSIGN_OR_RETURN(auto executor, Executor::create(plan, options));
  PlanEngine engine(std::move(executor));
  QWEN_RETURN_IF_ERROR(engine.bindPrograms());
  QWEN_RETURN_IF_ERROR(engine.bindInputs());
  QWEN_RETURN_IF_ERROR(engine.checkOutputs());
  engine.bindParameters();
  engine.microStepFlops = engine.countFlops(engine.microStepProgram);
  engine.updateFlops = engine.countFlops(engine.updateProgram);
  return engine;
}

Status PlanEngine::bindPrograms() {
  for (auto [name, index] :
       {std::pair("first_micro_step", &firstMicroStepProgram),
        std::pair("micro_step", &microStepProgram),
        std::pair("update", &updateProgram), std::pair("eval", &evalProgram)}) {
    auto found = executor->plan().findProgram(name);
    if (!found)
      return makeError(StatusCode::FailedPrecondition,
                       "not a training plan: it has no program '{}'", name);
    *index = *found;
  }
  return okStatus();
}

/// Checks that a port is there and of the right type.
static Status check(const BufferType *found, std::string_view what, DType dtype,
                    int64_t elements) {
  if (!found)
    return makeError(StatusCode::FailedPrecondition,
                     "not a training plan: it has no {}", what);
  if (found->dtype != dtype || found->elements() != elements ||
      !found->isContiguous())
    return makeError(StatusCode::FailedPrecondition,
                     "{} of the plan is {}, expected {} contiguous {} elements",
                     what, toString(*found), elements, dtypeName(dtype));
  return okStatus();
}

Status PlanEngine::bindInputs() {
  PackLimits size = limits();
  struct Input {
    const char *name;
    DType dtype;
    int64_t elements;
    Buffer *target;
  };
  const Input inputs[] = {
      {"tokens", DType::I32, size.tokens, &bound.tokens},
      {"labels", DType::I32, size.tokens, &bound.labels},
      {"positions", DType::I32, size.tokens, &bound.positions},
      {"cu_seqlens", DType::I32, size.documents + 1, &bound.cuSeqlens},
      {"loss_scale", DType::F32, 1, &bound.lossScale},
      {"hyper", DType::F32, 8, &bound.hyper},
      {"rng", DType::I32, 2, &bound.rng},
  };
  for (const Input &input : inputs) {
    std::optional<Buffer> found = executor->input(input.name);
    QWEN_RETURN_IF_ERROR(check(found ? &*found : nullptr,
                               fmt::format("input '{}'", input.name),
                               input.dtype, input.elements));
    *input.target = *found;
  }
  return okStatus();
}

Status PlanEngine::checkOutputs() const {
  struct Output {
    int program;
    const char *name;
    int64_t elements;
  };
  const Output outputs[] = {{firstMicroStepProgram, "nll", limits().tokens},
                            {microStepProgram, "nll", limits().tokens},
                            {evalProgram, "nll", limits().tokens},
                            {updateProgram, "stats", 4}};
  for (const Output &output : outputs) {
    const PlanProgram &program =
        executor->plan().programs()[static_cast<size_t>(output.program)];
    const BufferType *found = nullptr;
    for (const PlanPort &port : program.outputs)
      if (port.name == output.name)
        found = &port.place.type;
    QWEN_RETURN_IF_ERROR(check(
        found, fmt::format("output '{}' of '{}'", output.name, program.name),
        DType::F32, output.elements));
  }
  return okStatus();
}

int PlanEngine::indexOf(EngineRun::Program program) const {
  switch (program) {
  case EngineRun::Program::FirstMicroStep:
    return firstMicroStepProgram;
  case EngineRun::Program::MicroStep:
    return microStepProgram;
  case EngineRun::Program::Update:
    return updateProgram;
  case EngineRun::Program::Evaluation:
    return evalProgram;
  }
  return -1;
}

StatusOr<EngineRun> PlanEngine::start(EngineRun::Program program) {
  QWEN_ASSIGN_OR_RETURN(RunTicket run, executor->start(indexOf(program)));
  return EngineRun{program, run.number};
}

StatusOr<Buffer> PlanEngine::finish(EngineRun run) {
  RunTicket ticket{run.number};
  QWEN_RETURN_IF_ERROR(executor->finish(ticket));
  const char *name =
      run.program == EngineRun::Program::Update ? "stats" : "nll";
  auto output = executor->output(ticket, indexOf(run.program), name);
  if (!output)
    return makeError(StatusCode::Internal,
                     "output '{}' of run {} is not kept any more", name,
                     run.number);
  return *output;
}

StatusOr<NonFiniteFinding>
PlanEngine::findNonFinite(EngineRun::Program program) {
  return findNonFiniteLaunch(*executor, indexOf(program));
}

std::vector<ParameterView> qwen::parameterViews(Executor &executor) {
  std::vector<ParameterView> views;
  for (const PlanParameter &parameter : executor.plan().parameters()) {
    int i = int(views.size());
    ParameterView &view = views.emplace_back();
    view.name = parameter.name;
    view.shape.assign(parameter.type.shape.begin(),
                      parameter.type.shape.begin() + parameter.type.rank);
    view.firstElement = executor.firstElement(i);
    view.memory = &executor.memory();
    view.value = executor.parameter(i);
    view.master = executor.master(i);
    view.moment1 = executor.moment1(i);
    view.moment2 = executor.moment2(i);
  }
  return views;
}

void PlanEngine::bindParameters() {
  views = parameterViews(*executor);
  for (const PlanParameter &parameter : executor->plan().parameters())
    parts.push_back({parameter.decay, parameter.init, parameter.initStd,
                     executor->gradient(int(parts.size()))});
}

PackLimits PlanEngine::limits() const {
  const PlanInfo &info = executor->plan().info();
  return {info.tokens, info.maxDocuments};
}

int64_t PlanEngine::vocabSize() const {
  return executor->plan().info().vocabSize;
}

double PlanEngine::trainingFlops(double tokens, double contextPairs) const {
  double flops = 0;
  for (const PlanFlopsTerm &term : executor->plan().info().flops)
    flops += term.perToken * tokens + term.perTokenContext * contextPairs;
  return flops;
}

PlanEngine::ProgramFlops PlanEngine::countFlops(int program) const {
  ProgramFlops sum;
  for (const LaunchFacts &launch : launchFacts(executor->plan(), program)) {
    sum.fixed += double(launch.flops);
    sum.perPair += launch.flopsPerPair;
  }
  return sum;
}

double PlanEngine::launchedFlops(int64_t microBatches,
                                 double contextPairs) const {
  return double(microBatches) * microStepFlops.fixed +
         microStepFlops.perPair * contextPairs + updateFlops.fixed;
}
