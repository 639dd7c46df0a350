//===- CudaExecutor.cpp - Runs a plan on a GPU ----------------------------===//
//
// A start is one copy of the inputs to the device, one graph launch, one copy
// of the outputs back and one event; none of them waits. Pinned host memory
// holds the inputs and outputs of the last `runsInFlight` runs. With several
// ranks a graph has two branches, for the two streams.
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/CudaExecutor.h"
#include "qwen/Plan/Scratch.h"
#include "qwen/Plan/plan_generated.h"
#include "runtime/executor/CudaDevice.h"
#include "runtime/executor/CudaLaunches.h"
#include "runtime/executor/CudaPeers.h"
#include "runtime/executor/CudaRanks.h"
#include "runtime/executor/CudaTimer.h"

#include <array>
#include <cstring>

using namespace qwen;

namespace {

class CudaExecutor final : public Executor {
public:
  CudaExecutor(const Plan &plan, const ExecutorOptions &options)
      : Executor(plan, options.ranks), options(options) {}
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
  std::string pciAddress() const override { return device.pciAddress(); }
  float exposedMilliseconds() const override { return exposed; }
  std::span<const float> launchStarts() const override { return starts; }
  LaunchCounts launchCounts(int program) const override {
    return graphs[static_cast<size_t>(program)].counts;
  }
  MemoryReport memoryReport() const override { return report; }
  std::string warning() const override;

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
  Status openDevice();
  StatusOr<std::span<std::byte>> allocate(int64_t bytes, std::string_view what);
  Status allocateArenas();
  Status openPeers();
  Status createRing();
  Status capture(int program);
  StatusOr<CudaGraph> captureOn(cudaStream_t stream,
                                const std::function<Status()> &enqueue);
  Status measureMemory();

  Status beginRun(int program);
  Status endRun(int program, RunTicket &run);
  /// Stream 1 of a program that has it begins behind what is on stream 0.
  Status forkFor(int program) {
    return launches.communicates(program) ? streams.fork() : okStatus();
  }
  Status enqueueProgram(int program, size_t count);
  Status enqueueTimed(int program, size_t count, CudaTimer &timer);
  Status launchPlainly(int program, size_t count);
  Status launchAndWait(int program, size_t index);
  Status awaitIdle(std::string_view what);
  Status awaitRun(RunTicket run, std::string_view what);
  Status poison();
  /// Remembers the first error: the context is of no use after one.
  Status check(const Status &status, int program);
  Status check(cudaError_t error, int program, std::string_view what) {
    return check(cudaStatus(error, what), program);
  }
  std::string describe(int program) const {
    return fmt::format("program '{}'",
                       plan().programs()[static_cast<size_t>(program)].name);
  }

  ExecutorOptions options;
  CudaDevice device;
  CudaStreams streams;
  std::unique_ptr<CudaRanks> others; ///< where there are several ranks
  std::optional<CudaMemory> deviceMemory;
  std::vector<CudaArena> allocations;
  std::vector<std::span<std::byte>> arenas; ///< of the plan
  std::span<std::byte> shards;      ///< of parameters, and what is behind them
  std::unique_ptr<CudaPeers> peers; ///< where ranks may copy gathers
  CudaLaunches launches;
  std::vector<Replay> graphs; ///< by program

  std::span<std::byte> deviceInputs; ///< arenas of inputs, one after the other
  std::vector<std::byte> inputs;     ///< what the next start() brings there
  PinnedMemory inputSlots, outputs;
  std::array<CudaEvent, runsInFlight> ended; ///< by slot
  bool isLoaded = false;
  Status failed;
  float exposed = 0;         ///< of the latest runTimed()
  std::vector<float> starts; ///< likewise, of a program with two streams
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
  if (!streams)
    return;
  // Nothing may be freed under a running kernel.
  if (!others)
    (void)cudaStreamSynchronize(streams.main());
  else if (!others->leave(streams, !isLoaded || !failed.ok(),
                          [this] { graphs.clear(); }))
    cudaIsAbandoned = true;
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
        cudaStatus(cudaMemsetAsync(span.data(), 0, span.size(), streams.main()),
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
    auto bytes = static_cast<int64_t>(arena->size());
    bool isShared = others && arena->holds() == plan::BufferClass::Parameter;
    QWEN_ASSIGN_OR_RETURN(
        std::span<std::byte> memory,
        allocate(isShared ? roundUp(bytes, CudaPeers::allocationUnit) : bytes,
                 plan::EnumNameBufferClass(arena->holds())));
    arenas.push_back(memory.first(arena->size()));
    if (isShared && memory.size() > shards.size())
      shards = memory;
  }
  return okStatus();
}

/// Nothing may run meanwhile, as the peers try what they opened.
Status CudaExecutor::openPeers() {
  if (!others || !options.copyGathers || shards.empty())
    return okStatus();
  QWEN_RETURN_IF_ERROR(awaitIdle("cannot clear device memory"));
  QWEN_ASSIGN_OR_RETURN(
      peers, CudaPeers::open(ranks(), shards, others->collectives()));
  return okStatus();
}

std::string CudaExecutor::warning() const {
  std::string text = launches.warning();
  if (peers && !peers->reason().empty())
    text += fmt::format("{}gathers are NCCL's, which slows other kernels down: "
                        "{}",
                        text.empty() ? "" : "; ", peers->reason());
  return text;
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

StatusOr<CudaGraph>
CudaExecutor::captureOn(cudaStream_t stream,
                        const std::function<Status()> &enqueue) {
  // Kernels are loaded when they are first launched, which a capture in one of
  // the stricter modes refuses.
  QWEN_RETURN_IF_ERROR(
      cudaStatus(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed),
                 "cannot capture"));
  Status enqueued = enqueue();
  // The capture ends in any case.
  CudaGraph graph;
  cudaError_t ended = cudaStreamEndCapture(stream, graph.receive());
  QWEN_RETURN_IF_ERROR(enqueued);
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
  QWEN_ASSIGN_OR_RETURN(CudaGraph graph, captureOn(streams.main(), [&] {
                          return enqueueProgram(program, steps);
                        }));
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
  return cudaStatus(cudaGraphUpload(replay.exec.get(), streams.main()),
                    "cannot upload the graph");
}

Status CudaExecutor::measureMemory() {
  QWEN_RETURN_IF_ERROR(awaitIdle("the GPU failed while the plan was loaded"));
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

/// Everything on which this rank alone can fail, before others wait for it.
Status CudaExecutor::openDevice() {
  QWEN_ASSIGN_OR_RETURN(device,
                        CudaDevice::open(options.device, ranks().localRank(),
                                         plan().info().target));
  QWEN_RETURN_IF_ERROR(findOutputRanges());
  QWEN_RETURN_IF_ERROR(launches.loadCode(plan()));
  QWEN_RETURN_IF_ERROR(checkMemory());
  return streams.create(ranks().size() > 1);
}

Status CudaExecutor::load() {
  // Only plain launches can be waited for one by one.
  options.graph &= !options.synchronous;
  QWEN_RETURN_IF_ERROR(ranks().agree(openDevice()));
  if (ranks().size() > 1) {
    QWEN_ASSIGN_OR_RETURN(others, CudaRanks::join(ranks(), device, streams));
  }
  deviceMemory.emplace(streams.main(),
                       [this] { return awaitIdle("an earlier run failed"); });
  QWEN_RETURN_IF_ERROR(allocateArenas());
  QWEN_RETURN_IF_ERROR(openPeers());
  QWEN_RETURN_IF_ERROR(createRing());
  CudaLaunches::Places places;
  places.address = [this](uint32_t buffer) { return address(buffer); };
  places.expandBuckets = [this](AdamWArgs &args) {
    return expandBuckets(args);
  };
  places.streams = &streams;
  places.ranks = others ? &others->collectives() : nullptr;
  places.peers = peers.get();
  QWEN_RETURN_IF_ERROR(launches.prepare(plan(), places));
  graphs.resize(plan().programs().size());
  for (size_t i = 0; i < graphs.size(); ++i)
    QWEN_RETURN_IF_ERROR(
        capture(static_cast<int>(i)).withContext(describe(int(i))));
  QWEN_RETURN_IF_ERROR(measureMemory());
  isLoaded = true;
  return okStatus();
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

Status CudaExecutor::check(const Status &status, int program) {
  if (!status.ok())
    failed = status.withContext(describe(program));
  return status.ok() ? okStatus() : failed;
}

/// Waits until nothing runs.
Status CudaExecutor::awaitIdle(std::string_view what) {
  if (others)
    return others->await([this] { return streams.query(); }, what);
  return cudaStatus(cudaStreamSynchronize(streams.main()), what);
}

/// Waits for a run whose slot is its own. With several ranks, one run after the
/// other: each that ends shows that this rank gets on.
Status CudaExecutor::awaitRun(RunTicket run, std::string_view what) {
  auto await = [&](RunTicket waited) -> Status {
    cudaEvent_t event = ended[static_cast<size_t>(slotOf(waited))].get();
    if (others)
      return others->await([&] { return cudaEventQuery(event); }, what);
    return cudaStatus(cudaEventSynchronize(event), what);
  };
  if (!others)
    return check(await(run), programOf(run));
  while (others->endedRuns() <= run.number) {
    RunTicket next{others->endedRuns()};
    QWEN_RETURN_IF_ERROR(check(await(next), programOf(next)));
    others->noteRunEnd();
  }
  return okStatus();
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
        cudaMemsetAsync(bytes.data(), 0xff, bytes.size(), streams.main()),
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
    QWEN_RETURN_IF_ERROR(
        awaitRun({run.number - runsInFlight}, "an earlier run failed"));
  if (options.poison)
    QWEN_RETURN_IF_ERROR(poison());
  if (inputs.empty())
    return okStatus();
  std::byte *pinned = inputSlots.data() + slot * inputs.size();
  std::memcpy(pinned, inputs.data(), inputs.size());
  return check(cudaMemcpyAsync(deviceInputs.data(), pinned, inputs.size(),
                               cudaMemcpyHostToDevice, streams.main()),
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
                              cudaMemcpyDeviceToHost, streams.main()),
              program, "cannot copy the outputs"));
  return check(cudaEventRecord(ended[static_cast<size_t>(slotOf(run))].get(),
                               streams.main()),
               program, "cannot record the end of a run");
}

/// The first `count` launches on their streams, or in a capture.
Status CudaExecutor::enqueueProgram(int program, size_t count) {
  QWEN_RETURN_IF_ERROR(forkFor(program));
  for (size_t i = 0; i < count; ++i)
    QWEN_RETURN_IF_ERROR(launches.enqueue(program, i)
                             .withContext(launches.program(program)[i].what));
  return launches.communicates(program) ? streams.join() : okStatus();
}

/// Enqueues a launch and waits for it, as an error may be of that.
Status CudaExecutor::launchAndWait(int program, size_t index) {
  const std::string &what = launches.program(program)[index].what;
  QWEN_RETURN_IF_ERROR(
      check(launches.enqueue(program, index).withContext(what), program));
  return check(awaitIdle(what), program);
}

Status CudaExecutor::launchPlainly(int program, size_t count) {
  if (!options.synchronous)
    return check(enqueueProgram(program, count), program);
  QWEN_RETURN_IF_ERROR(check(forkFor(program), program));
  for (size_t i = 0; i < count; ++i)
    QWEN_RETURN_IF_ERROR(launchAndWait(program, i));
  return okStatus();
}

StatusOr<RunTicket> CudaExecutor::start(int program) {
  QWEN_RETURN_IF_ERROR(beginRun(program));
  if (options.graph)
    QWEN_RETURN_IF_ERROR(
        check(cudaGraphLaunch(graphs[static_cast<size_t>(program)].exec.get(),
                              streams.main()),
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
  return awaitRun(run, fmt::format("run {} failed on the GPU", run.number));
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
  QWEN_RETURN_IF_ERROR(check(forkFor(program), program));
  for (int64_t i = 0; i < steps; ++i) {
    QWEN_RETURN_IF_ERROR(launchAndWait(program, static_cast<size_t>(i)));
    QWEN_RETURN_IF_ERROR(observe(i));
  }
  QWEN_RETURN_IF_ERROR(endRun(program, run));
  return finish(run);
}

/// The launches with marks between them.
Status CudaExecutor::enqueueTimed(int program, size_t count, CudaTimer &timer) {
  QWEN_RETURN_IF_ERROR(forkFor(program));
  bool communicates = launches.communicates(program);
  for (size_t stream = 0; stream < (communicates ? 2 : 1); ++stream)
    QWEN_RETURN_IF_ERROR(timer.begin(stream));
  for (size_t i = 0; i < count; ++i) {
    const CudaLaunch &launch = launches.program(program)[i];
    QWEN_RETURN_IF_ERROR(launches.enqueueWaits(program, i));
    if (!launch.waits.empty())
      QWEN_RETURN_IF_ERROR(timer.endWait(launch.stream));
    QWEN_RETURN_IF_ERROR(
        launches.enqueueWork(program, i).withContext(launch.what));
    QWEN_RETURN_IF_ERROR(timer.endLaunch(launch.stream));
    QWEN_RETURN_IF_ERROR(launches.enqueueDone(program, i));
    if (options.synchronous)
      QWEN_RETURN_IF_ERROR(awaitIdle(launch.what));
  }
  if (!communicates)
    return okStatus();
  QWEN_RETURN_IF_ERROR(streams.join());
  return timer.endWait(0);
}

Status CudaExecutor::runTimed(int program, std::span<float> milliseconds) {
  CudaTimer timer(streams);
  RunTicket run;
  QWEN_RETURN_IF_ERROR(beginRun(program));
  QWEN_RETURN_IF_ERROR(
      check(enqueueTimed(program, milliseconds.size(), timer), program));
  QWEN_RETURN_IF_ERROR(endRun(program, run));
  QWEN_RETURN_IF_ERROR(finish(run));
  QWEN_RETURN_IF_ERROR(check(timer.readLaunches(milliseconds), program));
  QWEN_RETURN_IF_ERROR(check(timer.readWaits(exposed), program));
  starts.resize(launches.communicates(program) ? milliseconds.size() : 0);
  return check(timer.readStarts(starts), program);
}

StatusOr<std::vector<int64_t>> CudaExecutor::kernelsByLaunch(int program) {
  QWEN_RETURN_IF_ERROR(failed);
  std::vector<int64_t> counts;
  for (size_t i = 0; i < launches.program(program).size(); ++i) {
    cudaStream_t stream = streams[launches.program(program)[i].stream];
    QWEN_ASSIGN_OR_RETURN(CudaGraph graph, captureOn(stream, [&] {
                            return launches.enqueueWork(program, i);
                          }));
    QWEN_ASSIGN_OR_RETURN(int64_t kernels, countKernels(graph.get()));
    counts.push_back(kernels);
  }
  return counts;
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
