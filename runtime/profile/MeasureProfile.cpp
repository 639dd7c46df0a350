//===- MeasureProfile.cpp - Times of the launches of a step ---------------===//

#include "runtime/profile/MeasureProfile.h"

#include <algorithm>
#include <chrono>

using namespace qwen;

/// Starts the parts one behind the other.
static StatusOr<RunTicket> startStep(Executor &executor,
                                     std::span<const StepPart> step) {
  RunTicket last;
  for (const StepPart &part : step) {
    part.setInputs();
    QWEN_ASSIGN_OR_RETURN(last, executor.start(part.program));
  }
  return last;
}

/// Adds the program where it is new; returns its index.
static StatusOr<size_t> addProgram(Executor &executor, int program,
                                   StepProfile &profile) {
  const std::string &name = executor.plan().programs()[size_t(program)].name;
  for (size_t i = 0; i < profile.programs.size(); ++i)
    if (profile.programs[i].name == name)
      return i;
  ProfiledProgram entry = ProfiledProgram::of(executor.plan(), program);
  QWEN_ASSIGN_OR_RETURN(entry.deviceKernels, executor.kernelsByLaunch(program));
  profile.programs.push_back(std::move(entry));
  return profile.programs.size() - 1;
}

/// Adds the times of a run, of which there are `steps`.
static void addTimes(Executor &executor, const ProfiledProgram &program,
                     const ProgramRun &run, double steps,
                     StepMeasurement &measured) {
  double compute = 0, communication = 0;
  for (size_t i = 0; i < run.milliseconds.size(); ++i)
    (program.launches[i].stream == 0 ? compute : communication) +=
        double(run.milliseconds[i]);
  measured.computeMilliseconds += compute / steps;
  measured.communicationMilliseconds += communication / steps;
  // A processor does one thing after the other.
  bool isAtOnce = executor.memory().isHost();
  measured.exposedMilliseconds +=
      (isAtOnce ? communication : double(executor.exposedMilliseconds())) /
      steps;
}

static Status timeStep(Executor &executor, std::span<const StepPart> step,
                       double steps, StepMeasurement &measured) {
  StepProfile &profile = measured.profile;
  std::vector<ProgramRun> &runs = profile.steps.emplace_back();
  for (const StepPart &part : step) {
    QWEN_ASSIGN_OR_RETURN(size_t program,
                          addProgram(executor, part.program, profile));
    ProgramRun run{program, part.contextPairs, {}};
    run.milliseconds.resize(profile.programs[program].launches.size());
    part.setInputs();
    QWEN_RETURN_IF_ERROR(executor.runTimed(part.program, run.milliseconds));
    run.starts.assign(executor.launchStarts().begin(),
                      executor.launchStarts().end());
    addTimes(executor, profile.programs[program], run, steps, measured);
    runs.push_back(std::move(run));
  }
  return okStatus();
}

StatusOr<StepMeasurement> qwen::measureStep(Executor &executor,
                                            std::span<const StepPart> step,
                                            int64_t warmUp, int64_t steps) {
  StepMeasurement measured;
  for (int64_t i = 0; i < warmUp; ++i) {
    QWEN_ASSIGN_OR_RETURN(RunTicket run, startStep(executor, step));
    QWEN_RETURN_IF_ERROR(executor.finish(run));
  }
  // Known once a program has run.
  for (const StepPart &part : step) {
    LaunchCounts counts = executor.launchCounts(part.program);
    measured.counts.kernels += counts.kernels;
    measured.counts.driverCalls += counts.driverCalls;
  }
  for (int64_t i = 0; i < steps; ++i)
    QWEN_RETURN_IF_ERROR(timeStep(executor, step, double(steps), measured));
  auto begin = std::chrono::steady_clock::now();
  RunTicket last;
  for (int64_t i = 0; i < steps; ++i) {
    QWEN_ASSIGN_OR_RETURN(last, startStep(executor, step));
  }
  QWEN_RETURN_IF_ERROR(executor.finish(last));
  std::chrono::duration<double, std::milli> taken =
      std::chrono::steady_clock::now() - begin;
  measured.replayMilliseconds = taken.count() / double(steps);
  return measured;
}
