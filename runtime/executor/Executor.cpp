//===- Executor.cpp - What the executors of all devices share -------------===//
//
// The choice of an executor, the plan's views and the ring of outputs.
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/Executor.h"
#include "qwen/Plan/Scratch.h"
#include "qwen/Plan/plan_generated.h"
#include "runtime/executor/CpuExecutor.h"
#ifdef QWEN_CUDA
#include "runtime/executor/CudaExecutor.h"
#endif

#include <algorithm>

using namespace qwen;

StatusOr<std::unique_ptr<Executor>>
Executor::create(const Plan &plan, const ExecutorOptions &options) {
  switch (plan.info().targetKind) {
  case TargetKind::Cpu:
    return createCpuExecutor(plan, options);
  case TargetKind::Cuda:
#ifdef QWEN_CUDA
    return createCudaExecutor(plan, options);
#else
    return makeError(StatusCode::FailedPrecondition,
                     "the plan is for {}; this qwenrun was built without CUDA",
                     plan.info().target);
#endif
  }
  return makeError(StatusCode::Internal, "no executor for target {}",
                   plan.info().target);
}

Executor::Executor(const Plan &plan)
    : held(plan), slotProgram(runsInFlight, -1),
      latestRun(plan.programs().size()) {}

Executor::~Executor() = default;

Status Executor::run(int program) {
  QWEN_ASSIGN_OR_RETURN(RunTicket run, start(program));
  return finish(run);
}

Status Executor::runTimed(int, std::span<float>) {
  return makeError(StatusCode::FailedPrecondition,
                   "single launches cannot be timed on {}", deviceName());
}

StatusOr<std::vector<int64_t>> Executor::kernelsByLaunch(int program) {
  const PlanProgram &entry = held.programs()[static_cast<size_t>(program)];
  return std::vector<int64_t>(static_cast<size_t>(entry.launches), 1);
}

Status Executor::findOutputRanges() {
  for (const PlanProgram &program : held.programs()) {
    OutputRange &range = outputRanges.emplace_back();
    for (const PlanPort &port : program.outputs) {
      const plan::Buffer &buffer =
          *held.raw().buffers()->Get(port.place.buffer);
      auto begin = static_cast<int64_t>(buffer.offset());
      int64_t end = begin + static_cast<int64_t>(buffer.size());
      if (range.bytes() == 0)
        range = {buffer.arena(), begin, end};
      if (range.arena != buffer.arena())
        return makeError(StatusCode::FailedPrecondition,
                         "program '{}' has outputs in arenas {} and {}, "
                         "expected one arena",
                         program.name, range.arena, buffer.arena());
      range.begin = std::min(range.begin, begin);
      range.end = std::max(range.end, end);
    }
  }
  return okStatus();
}

int64_t Executor::outputSlotBytes() const {
  constexpr int64_t page = 4096;
  int64_t bytes = 0;
  for (const OutputRange &range : outputRanges)
    bytes = std::max(bytes, range.bytes());
  return roundUp(bytes, page);
}

RunTicket Executor::nextRun(int program) {
  RunTicket run{started++};
  slotProgram[static_cast<size_t>(slotOf(run))] = program;
  latestRun[static_cast<size_t>(program)] = run;
  return run;
}

std::optional<Buffer> Executor::output(RunTicket run, int program,
                                       std::string_view name) const {
  bool kept = run.number >= 0 && run.number < started &&
              run.number >= started - runsInFlight;
  if (!kept || slotProgram[static_cast<size_t>(slotOf(run))] != program)
    return std::nullopt;
  for (const PlanPort &port :
       held.programs()[static_cast<size_t>(program)].outputs) {
    if (port.name != name)
      continue;
    auto offset = static_cast<int64_t>(
        held.raw().buffers()->Get(port.place.buffer)->offset());
    return Buffer{port.place.type, outputSlot(slotOf(run)) + offset -
                                       outputRange(program).begin +
                                       port.place.byteOffset};
  }
  return std::nullopt;
}

std::optional<Buffer> Executor::output(int program,
                                       std::string_view name) const {
  return output(latestRun[static_cast<size_t>(program)], program, name);
}

Buffer Executor::view(const PlanPlace &place) const {
  if (!place.exists())
    return {};
  return {place.type, address(place.buffer) + place.byteOffset};
}

Buffer Executor::parameter(int i) const {
  return view(held.parameters()[static_cast<size_t>(i)].value);
}
Buffer Executor::gradient(int i) const {
  return view(held.parameters()[static_cast<size_t>(i)].gradient);
}
Buffer Executor::moment1(int i) const {
  return view(held.parameters()[static_cast<size_t>(i)].moment1);
}
Buffer Executor::moment2(int i) const {
  return view(held.parameters()[static_cast<size_t>(i)].moment2);
}
Buffer Executor::master(int i) const {
  return view(held.parameters()[static_cast<size_t>(i)].master);
}
