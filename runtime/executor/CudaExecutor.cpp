//===- CudaExecutor.cpp - Runs a plan on a GPU ----------------------------===//
//
// A start is one copy of the inputs to the device, one graph launch, one copy
// of the outputs back and one event; none of them waits. Pinned host memory
// holds the inputs and outputs of the last `runsInFlight` runs.
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/CudaExecutor.h"
#include "qwen/Plan/Scratch.h"
#include "qwen/Plan/plan_generated.h"
#include "runtime/executor/CudaDevice.h"
#include "runtime/executor/CudaLaunches.h"

#include <array>
#include <cstring>

using namespace qwen;

namespace {

class CudaExecutor final : public Executor {
public:
  CudaExecutor(const Plan &plan, const ExecutorOptions &options)
      : Executor(plan), options(options) {}
  ~CudaExecutor() override;

  /// Everything between the constructor and the first run.
  Status load();

  StatusOr<RunTicket> start(int program) override;
  Status finish(RunTicket run) override;
  Status runPrefix(int program, int64_t steps) override;
  Status runObserved(int program, int64_t steps,
                     const LaunchObserver &observe) override;
  Status runTimed(int program, std::span<float> milliseconds) override;
  StatusOr<std::vector<int64_t>> kernelsByLaunch(int program) override;
  std::optional<Buffer> input(std::string_view name) const override;
  DeviceMemory &memory() override { return *deviceMemory; }
  std::string deviceName() const override { return device.name; }
  std::string pciAddress() const override;
  LaunchCounts launchCounts(int program) const override {
    return graphs[static_cast<size_t>(program)].counts;
  }
  MemoryReport memoryReport() const override { return report; }
  std::string warning() const override { return launches.warning(); }

protected:
  std::byte *address(uint32_t buffer) const override {
    const plan::Buffer &entry = *plan().raw().buffers()->Get(buffer);
    return arenas[entry.arena()].data() + entry.offset();
  }
  std::byte *outputSlot(int64_t slot) const override {
    return outputs.data() + slot * outputSlotBytes();
  }

private:
  /// A captured program.
  struct Replay {
    CudaGraphExec exec;
    LaunchCounts counts;
  };

  Status checkMemory() const;
  StatusOr<std::span<std::byte>> allocate(int64_t bytes, std::string_view what);
  Status allocateArenas();
  Status createRing();
  Status capture(int program);
  StatusOr<CudaGraph> captureLaunches(int program, size_t first, size_t count);
  Status measureMemory();

  Status beginRun(int program);
  Status endRun(int program, RunTicket &run);
  Status launchOne(int program, size_t index);
  Status launchPlainly(int program, size_t count);
  Status poison();
  /// Remembers the first error: the context is of no use after one.
  Status check(cudaError_t error, int program, std::string_view what);
  std::string describe(int program) const {
    return fmt::format("program '{}'",
                       plan().programs()[static_cast<size_t>(program)].name);
  }

  ExecutorOptions options;
  CudaDevice device;
  CudaStream stream;
  std::optional<CudaMemory> deviceMemory;
  std::vector<CudaArena> allocations;
  std::vector<std::span<std::byte>> arenas; ///< of the plan
  CudaLaunches launches;
  std::vector<Replay> graphs; ///< by program

  std::span<std::byte> deviceInputs; ///< arenas of inputs, one after the other
  std::vector<std::byte> inputs;     ///< what the next start() brings there
  PinnedMemory inputSlots, outputs;
  std::array<CudaEvent, runsInFlight> ended; ///< by slot
  Status failed;
  MemoryReport report;
};

/// From an arena of the plan to the next one in the same allocation.
int64_t arenaStride(const plan::Arena &arena) {
  return roundUp(static_cast<int64_t>(arena.size()), cuda::deviceAlignment);
}

/// A number of bytes in GiB, for messages.
std::string gib(int64_t bytes) {
  return fmt::format("{:.2f}", double(bytes) / double(1 << 30));
}

} // namespace

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

CudaExecutor::~CudaExecutor() {
  // Nothing may be freed under a running kernel.
  if (stream)
    (void)cudaStreamSynchronize(stream.get());
}

Status CudaExecutor::checkMemory() const {
  size_t free = 0, total = 0;
  QWEN_RETURN_IF_ERROR(cudaStatus(cudaMemGetInfo(&free, &total),
                                  "cannot ask for the free device memory"));
  int64_t needed = plan().info().forecast.total();
  if (needed > static_cast<int64_t>(free))
    return makeError(StatusCode::ResourceExhausted,
                     "the plan needs {} GiB of device memory; {} GiB of {} are "
                     "free on GPU {} ({})",
                     gib(needed), gib(static_cast<int64_t>(free)),
                     gib(static_cast<int64_t>(total)), device.number,
                     device.name);
  return okStatus();
}

StatusOr<std::span<std::byte>> CudaExecutor::allocate(int64_t bytes,
                                                      std::string_view what) {
  QWEN_ASSIGN_OR_RETURN(CudaArena memory, CudaArena::allocate(bytes, what));
  std::span<std::byte> span = memory.bytes();
  if (bytes > 0)
    QWEN_RETURN_IF_ERROR(
        cudaStatus(cudaMemsetAsync(span.data(), 0, span.size(), stream.get()),
                   "cannot clear device memory"));
  allocations.push_back(std::move(memory));
  return span;
}

Status CudaExecutor::allocateArenas() {
  const plan::Plan &raw = plan().raw();
  if (!raw.arenas())
    return okStatus();
  // One copy moves the inputs of all programs, so their arenas are neighbours.
  int64_t inputBytes = 0;
  for (const plan::Arena *arena : *raw.arenas())
    if (arena->holds() == plan::BufferClass::Input)
      inputBytes += arenaStride(*arena);
  QWEN_ASSIGN_OR_RETURN(deviceInputs, allocate(inputBytes, "Input"));
  inputs.resize(deviceInputs.size());
  size_t used = 0;
  for (const plan::Arena *arena : *raw.arenas()) {
    if (arena->holds() == plan::BufferClass::Input) {
      arenas.push_back(deviceInputs.subspan(used, arena->size()));
      used += static_cast<size_t>(arenaStride(*arena));
      continue;
    }
    QWEN_ASSIGN_OR_RETURN(std::span<std::byte> memory,
                          allocate(static_cast<int64_t>(arena->size()),
                                   plan::EnumNameBufferClass(arena->holds())));
    arenas.push_back(memory);
  }
  return okStatus();
}

Status CudaExecutor::createRing() {
  QWEN_ASSIGN_OR_RETURN(
      inputSlots,
      PinnedMemory::allocate(runsInFlight * static_cast<int64_t>(inputs.size()),
                             "pinned host memory for inputs"));
  QWEN_ASSIGN_OR_RETURN(
      outputs, PinnedMemory::allocate(runsInFlight * outputSlotBytes(),
                                      "pinned host memory for outputs"));
  for (CudaEvent &event : ended)
    QWEN_RETURN_IF_ERROR(cudaStatus(
        cudaEventCreateWithFlags(event.receive(), cudaEventDisableTiming |
                                                      cudaEventBlockingSync),
        "cannot create an event"));
  return okStatus();
}

StatusOr<CudaGraph> CudaExecutor::captureLaunches(int program, size_t first,
                                                  size_t count) {
  // Kernels are loaded when they are first launched, which a capture in one of
  // the stricter modes refuses.
  QWEN_RETURN_IF_ERROR(cudaStatus(
      cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeRelaxed),
      "cannot capture"));
  Status launched = okStatus();
  for (size_t i = first; i < first + count && launched.ok(); ++i) {
    const CudaLaunch &launch = launches.program(program)[i];
    launched = cudaStatus(launch.enqueue(), launch.what);
  }
  // The capture ends in any case.
  CudaGraph graph;
  cudaError_t ended = cudaStreamEndCapture(stream.get(), graph.receive());
  QWEN_RETURN_IF_ERROR(launched);
  QWEN_RETURN_IF_ERROR(cudaStatus(ended, "cannot end the capture"));
  return graph;
}

/// Kernels of a graph.
static StatusOr<int64_t> countKernels(cudaGraph_t graph) {
  size_t count = 0;
  QWEN_RETURN_IF_ERROR(cudaStatus(cudaGraphGetNodes(graph, nullptr, &count),
                                  "cannot count a graph's nodes"));
  std::vector<cudaGraphNode_t> nodes(count);
  QWEN_RETURN_IF_ERROR(
      cudaStatus(cudaGraphGetNodes(graph, nodes.data(), &count),
                 "cannot list a graph's nodes"));
  int64_t kernels = 0;
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type;
    QWEN_RETURN_IF_ERROR(cudaStatus(cudaGraphNodeGetType(node, &type),
                                    "cannot ask for a graph node's type"));
    kernels += type == cudaGraphNodeTypeKernel;
  }
  return kernels;
}

/// Captures a program, in plain mode only to count and to load its kernels.
Status CudaExecutor::capture(int program) {
  Replay &replay = graphs[static_cast<size_t>(program)];
  size_t steps = launches.program(program).size();
  QWEN_ASSIGN_OR_RETURN(CudaGraph graph, captureLaunches(program, 0, steps));
  QWEN_ASSIGN_OR_RETURN(replay.counts.kernels, countKernels(graph.get()));
  // Copies in and out, the event, and what start() launches.
  replay.counts.driverCalls = (inputs.empty() ? 0 : 1) +
                              (outputRange(program).bytes() > 0 ? 1 : 0) + 1 +
                              (options.graph ? 1 : replay.counts.kernels);
  if (!options.graph)
    return okStatus();
  QWEN_RETURN_IF_ERROR(
      cudaStatus(cudaGraphInstantiate(replay.exec.receive(), graph.get(), 0),
                 "cannot instantiate the graph"));
  return cudaStatus(cudaGraphUpload(replay.exec.get(), stream.get()),
                    "cannot upload the graph");
}

Status CudaExecutor::measureMemory() {
  QWEN_RETURN_IF_ERROR(cudaStatus(cudaStreamSynchronize(stream.get()),
                                  "the GPU failed while the plan was loaded"));
  size_t free = 0, total = 0;
  QWEN_RETURN_IF_ERROR(cudaStatus(cudaMemGetInfo(&free, &total),
                                  "cannot ask for the free device memory"));
  const PlanForecast &forecast = plan().info().forecast;
  report.plan = forecast.total();
  report.before = device.totalBytes - device.freeBytes;
  report.libraries =
      device.freeBytes - static_cast<int64_t>(free) - report.plan;
  return okStatus();
}

Status CudaExecutor::load() {
  // Only plain launches can be waited for one by one.
  options.graph &= !options.synchronous;
  QWEN_ASSIGN_OR_RETURN(device,
                        CudaDevice::open(options.device, plan().info().target));
  QWEN_RETURN_IF_ERROR(findOutputRanges());
  QWEN_RETURN_IF_ERROR(launches.loadCode(plan()));
  QWEN_RETURN_IF_ERROR(checkMemory());
  QWEN_RETURN_IF_ERROR(cudaStatus(
      cudaStreamCreateWithFlags(stream.receive(), cudaStreamNonBlocking),
      "cannot create a stream"));
  deviceMemory.emplace(stream.get());
  QWEN_RETURN_IF_ERROR(allocateArenas());
  QWEN_RETURN_IF_ERROR(createRing());
  auto addressOf = [this](uint32_t buffer) { return address(buffer); };
  QWEN_RETURN_IF_ERROR(launches.prepare(plan(), addressOf, stream.get()));
  graphs.resize(plan().programs().size());
  for (size_t i = 0; i < graphs.size(); ++i)
    QWEN_RETURN_IF_ERROR(
        capture(static_cast<int>(i)).withContext(describe(int(i))));
  return measureMemory();
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

Status CudaExecutor::check(cudaError_t error, int program,
                           std::string_view what) {
  if (error == cudaSuccess)
    return okStatus();
  failed = cudaStatus(error, fmt::format("{}: {}", describe(program), what));
  return failed;
}

/// All bits set is a NaN in every float format and -1 in i32.
Status CudaExecutor::poison() {
  for (size_t i = 0; i < arenas.size(); ++i) {
    plan::BufferClass holds = plan().raw().arenas()->Get(unsigned(i))->holds();
    bool lasts = holds != plan::BufferClass::Activation &&
                 holds != plan::BufferClass::Workspace &&
                 holds != plan::BufferClass::Output;
    std::span<std::byte> bytes = arenas[i];
    if (lasts || bytes.empty())
      continue;
    QWEN_RETURN_IF_ERROR(cudaStatus(
        cudaMemsetAsync(bytes.data(), 0xff, bytes.size(), stream.get()),
        "cannot fill device memory"));
  }
  return okStatus();
}

/// Brings the inputs to the device.
Status CudaExecutor::beginRun(int program) {
  QWEN_RETURN_IF_ERROR(failed);
  RunTicket run{startedRuns()};
  auto slot = static_cast<size_t>(slotOf(run));
  // The slot's last run must be over before its memory is used again.
  if (run.number >= runsInFlight)
    QWEN_RETURN_IF_ERROR(check(cudaEventSynchronize(ended[slot].get()), program,
                               "an earlier run failed"));
  if (options.poison)
    QWEN_RETURN_IF_ERROR(poison());
  if (inputs.empty())
    return okStatus();
  std::byte *pinned = inputSlots.data() + slot * inputs.size();
  std::memcpy(pinned, inputs.data(), inputs.size());
  return check(cudaMemcpyAsync(deviceInputs.data(), pinned, inputs.size(),
                               cudaMemcpyHostToDevice, stream.get()),
               program, "cannot copy the inputs");
}

/// Brings the outputs back.
Status CudaExecutor::endRun(int program, RunTicket &run) {
  run = nextRun(program);
  const OutputRange &range = outputRange(program);
  if (range.bytes() > 0)
    QWEN_RETURN_IF_ERROR(
        check(cudaMemcpyAsync(outputSlot(slotOf(run)),
                              arenas[range.arena].data() + range.begin,
                              static_cast<size_t>(range.bytes()),
                              cudaMemcpyDeviceToHost, stream.get()),
              program, "cannot copy the outputs"));
  return check(cudaEventRecord(ended[static_cast<size_t>(slotOf(run))].get(),
                               stream.get()),
               program, "cannot record the end of a run");
}

Status CudaExecutor::launchOne(int program, size_t index) {
  const CudaLaunch &launch = launches.program(program)[index];
  QWEN_RETURN_IF_ERROR(check(launch.enqueue(), program, launch.what));
  if (!options.synchronous)
    return okStatus();
  return check(cudaStreamSynchronize(stream.get()), program, launch.what);
}

Status CudaExecutor::launchPlainly(int program, size_t count) {
  for (size_t i = 0; i < count; ++i)
    QWEN_RETURN_IF_ERROR(launchOne(program, i));
  return okStatus();
}

StatusOr<RunTicket> CudaExecutor::start(int program) {
  QWEN_RETURN_IF_ERROR(beginRun(program));
  if (options.graph)
    QWEN_RETURN_IF_ERROR(
        check(cudaGraphLaunch(graphs[static_cast<size_t>(program)].exec.get(),
                              stream.get()),
              program, "cannot launch the graph"));
  else
    QWEN_RETURN_IF_ERROR(
        launchPlainly(program, launches.program(program).size()));
  RunTicket run;
  QWEN_RETURN_IF_ERROR(endRun(program, run));
  return run;
}

Status CudaExecutor::finish(RunTicket run) {
  QWEN_RETURN_IF_ERROR(failed);
  if (run.number < 0 || run.number >= startedRuns())
    return makeError(StatusCode::Internal, "run {} was not started, only {}",
                     run.number, startedRuns());
  // A later run has the slot: this one was waited for before that started.
  if (run.number < startedRuns() - runsInFlight)
    return okStatus();
  return check(
      cudaEventSynchronize(ended[static_cast<size_t>(slotOf(run))].get()),
      programOf(run), fmt::format("run {} failed on the GPU", run.number));
}

Status CudaExecutor::runPrefix(int program, int64_t steps) {
  RunTicket run;
  QWEN_RETURN_IF_ERROR(beginRun(program));
  QWEN_RETURN_IF_ERROR(launchPlainly(program, static_cast<size_t>(steps)));
  QWEN_RETURN_IF_ERROR(endRun(program, run));
  return finish(run);
}

Status CudaExecutor::runObserved(int program, int64_t steps,
                                 const LaunchObserver &observe) {
  RunTicket run;
  QWEN_RETURN_IF_ERROR(beginRun(program));
  for (int64_t i = 0; i < steps; ++i) {
    auto index = static_cast<size_t>(i);
    QWEN_RETURN_IF_ERROR(launchOne(program, index));
    QWEN_RETURN_IF_ERROR(check(cudaDeviceSynchronize(), program,
                               launches.program(program)[index].what));
    QWEN_RETURN_IF_ERROR(observe(i));
  }
  QWEN_RETURN_IF_ERROR(endRun(program, run));
  return finish(run);
}

Status CudaExecutor::runTimed(int program, std::span<float> milliseconds) {
  std::vector<CudaEvent> events(milliseconds.size() + 1);
  for (CudaEvent &event : events)
    QWEN_RETURN_IF_ERROR(
        cudaStatus(cudaEventCreate(event.receive()), "cannot create an event"));
  RunTicket run;
  QWEN_RETURN_IF_ERROR(beginRun(program));
  QWEN_RETURN_IF_ERROR(
      check(cudaEventRecord(events[0].get(), stream.get()), program, "event"));
  for (size_t i = 0; i < milliseconds.size(); ++i) {
    QWEN_RETURN_IF_ERROR(launchOne(program, i));
    QWEN_RETURN_IF_ERROR(
        check(cudaEventRecord(events[i + 1].get(), stream.get()), program,
              "cannot record an event"));
  }
  QWEN_RETURN_IF_ERROR(endRun(program, run));
  QWEN_RETURN_IF_ERROR(finish(run));
  for (size_t i = 0; i < milliseconds.size(); ++i)
    QWEN_RETURN_IF_ERROR(
        check(cudaEventElapsedTime(&milliseconds[i], events[i].get(),
                                   events[i + 1].get()),
              program, "cannot read an event"));
  return okStatus();
}

StatusOr<std::vector<int64_t>> CudaExecutor::kernelsByLaunch(int program) {
  QWEN_RETURN_IF_ERROR(failed);
  std::vector<int64_t> counts;
  for (size_t i = 0; i < launches.program(program).size(); ++i) {
    QWEN_ASSIGN_OR_RETURN(CudaGraph graph, captureLaunches(program, i, 1));
    QWEN_ASSIGN_OR_RETURN(int64_t kernels, countKernels(graph.get()));
    counts.push_back(kernels);
  }
  return counts;
}

std::string CudaExecutor::pciAddress() const {
  std::array<char, 32> address{};
  cudaError_t error = cudaDeviceGetPCIBusId(
      address.data(), static_cast<int>(address.size()), device.number);
  return error == cudaSuccess ? address.data() : "";
}

std::optional<Buffer> CudaExecutor::input(std::string_view name) const {
  const PlanPort *port = plan().findInput(name);
  if (!port)
    return std::nullopt;
  std::byte *device = address(port->place.buffer) + port->place.byteOffset;
  return Buffer{port->place.type, const_cast<std::byte *>(inputs.data()) +
                                      (device - deviceInputs.data())};
}

StatusOr<std::unique_ptr<Executor>>
qwen::createCudaExecutor(const Plan &plan, const ExecutorOptions &options) {
  auto executor = std::make_unique<CudaExecutor>(plan, options);
  QWEN_RETURN_IF_ERROR(executor->load());
  return std::unique_ptr<Executor>(std::move(executor));
}
