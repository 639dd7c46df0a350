//===- Executor.cpp - What the executors of all devices share -------------===//
//
// The choice of an executor, the plan's views and the ring of outputs.
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/Executor.h"
#include "qwen/Plan/Kernels.h"
#include "qwen/Plan/Scratch.h"
#include "qwen/Plan/plan_generated.h"
#include "runtime/executor/CpuExecutor.h"
#ifdef QWEN_CUDA
#include "runtime/executor/CudaExecutor.h"
#endif
#include "runtime/plan/PlanSteps.h"

#include <algorithm>

using namespace qwen;

StatusOr<std::unique_ptr<Executor>>
Executor::create(const Plan &plan, const ExecutorOptions &options) {
  int64_t planned = plan.info().worldSize;
  int64_t started = options.ranks ? options.ranks->size() : 1;
  if (planned != started)
    return makeError(StatusCode::FailedPrecondition,
                     "the plan is for {} rank{}, {} {} started: compile with "
                     "--world-size={} or start {} (mpirun -n {} qwenrun …)",
                     planned, planned == 1 ? "" : "s", started,
                     started == 1 ? "was" : "were", started, planned, planned);
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

Executor::Executor(const Plan &plan, Communicator *ranks)
    : held(plan), group(ranks ? ranks : &selfCommunicator()),
      slotProgram(runsInFlight, -1), latestRun(plan.programs().size()) {}

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

Buffer Executor::operand(uint32_t view) const {
  const plan::View &entry = *held.raw().views()->Get(view);
  return {toBufferType(*held.raw().types()->Get(entry.type())),
          address(entry.buffer()) + entry.byte_offset()};
}

Buffer Executor::view(const PlanPlace &place) const {
  if (!place.exists())
    return {};
  return {place.type, address(place.buffer) + place.byteOffset};
}

/// `slice` of a rank's shard.
template <typename AnyBuffer>
static AnyBuffer partOf(const AnyBuffer &shard, const PlanSlice &slice) {
  AnyBuffer part;
  part.dtype = shard.dtype;
  part.rank = 1;
  part.shape[0] = slice.elements;
  part.strides[0] = 1;
  if (shard.data)
    part.data = shard.template as<std::byte>() +
                slice.shardOffset * dtypeBytes(shard.dtype);
  return part;
}

PlanSlice Executor::slice(int i) const {
  const PlanParameter &parameter = held.parameters()[static_cast<size_t>(i)];
  if (parameter.bucket < 0)
    return {parameter.type.elements(), 0, 0};
  return sliceOf(parameter,
                 held.buckets()[static_cast<size_t>(parameter.bucket)],
                 group->rank());
}

int64_t Executor::firstElement(int i) const { return slice(i).firstElement; }

Buffer Executor::tensor(int i, PlanPlace PlanParameter::*own,
                        PlanPlace PlanBucket::*shared) const {
  const PlanParameter &parameter = held.parameters()[static_cast<size_t>(i)];
  if (parameter.bucket < 0)
    return view(parameter.*own);
  const PlanBucket &bucket =
      held.buckets()[static_cast<size_t>(parameter.bucket)];
  return partOf(view(bucket.*shared), slice(i));
}

Buffer Executor::parameter(int i) const {
  return tensor(i, &PlanParameter::value, &PlanBucket::value);
}
Buffer Executor::gradient(int i) const {
  return tensor(i, &PlanParameter::gradient, &PlanBucket::gradient);
}
Buffer Executor::moment1(int i) const {
  return tensor(i, &PlanParameter::moment1, &PlanBucket::moment1);
}
Buffer Executor::moment2(int i) const {
  return tensor(i, &PlanParameter::moment2, &PlanBucket::moment2);
}
Buffer Executor::master(int i) const {
  return tensor(i, &PlanParameter::master, &PlanBucket::master);
}

Status Executor::expandBuckets(AdamWArgs &args) const {
  if (args.buckets.empty())
    return okStatus();
  AdamWArgs shards = std::move(args);
  args = AdamWArgs();
  args.hyper = shards.hyper;
  args.stats = shards.stats;
  args.rng = shards.rng;
  args.decay = shards.decay;
  for (size_t at = 0; at < shards.buckets.size(); ++at) {
    int64_t bucket = shards.buckets[at];
    if (bucket < 0 || bucket >= int64_t(held.buckets().size()) ||
        held.buckets()[size_t(bucket)].shardElements !=
            shards.params[at].elements())
      return dataLoss("adamw: entry {} is not a shard of bucket {}", at,
                      bucket);
    for (int i = 0; i < int(held.parameters().size()); ++i) {
      const PlanParameter &parameter = held.parameters()[size_t(i)];
      PlanSlice part = slice(i);
      if (parameter.bucket != bucket || parameter.decay != args.decay ||
          part.elements == 0)
        continue;
      args.params.push_back(partOf(shards.params[at], part));
      args.grads.push_back(partOf(shards.grads[at], part));
      args.moments1.push_back(partOf(shards.moments1[at], part));
      args.moments2.push_back(partOf(shards.moments2[at], part));
      if (!shards.masters.empty())
        args.masters.push_back(partOf(shards.masters[at], part));
      args.tensorIds.push_back(i);
      args.firstElements.push_back(part.firstElement);
    }
  }
  return okStatus();
}
