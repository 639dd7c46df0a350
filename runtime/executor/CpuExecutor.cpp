//===- CpuExecutor.cpp - Runs a plan on the processor ---------------------===//
//
// Everything that can fail or allocate happens when it is made.
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/CpuExecutor.h"
#include "runtime/executor/CodeImage.h"
#include "runtime/executor/CpuCollectives.h"
#include "runtime/kernels/cpu/Kernels.h"
#include "runtime/plan/PlanSteps.h"
#include "runtime/support/Arena.h"

#include <chrono>
#include <cstring>
#include <omp.h>

using namespace qwen;

namespace {

/// What the library kernels are compiled for (runtime/kernels/cpu).
constexpr std::string_view kernelTarget = "x86-64-v3";

/// A launch with everything resolved.
struct Launch {
  Status (*function)(const void *args, const cpu::LaunchContext &context,
                     Communicator &ranks);
  std::shared_ptr<const void> args;
  cpu::LaunchContext context;
};

template <typename Args>
Status launchOnCpu(const void *args, const cpu::LaunchContext &context,
                   Communicator &ranks) {
  const Args &a = *static_cast<const Args *>(args);
  if constexpr (isCollective<Args>)
    return cpu::runCollective(a, ranks);
  else
    cpu::launch(a, context);
  return okStatus();
}

class CpuExecutor final : public Executor {
public:
  CpuExecutor(const Plan &plan, const ExecutorOptions &options)
      : Executor(plan, options.ranks), options(options) {}

  /// Everything between the constructor and the first run.
  Status load();

  StatusOr<RunTicket> start(int program) override {
    return runLaunches(program, programs[static_cast<size_t>(program)].size());
  }
  Status runTimed(int program, std::span<float> milliseconds) override {
    return runLaunches(program, milliseconds.size(), milliseconds).status();
  }
  Status finish(RunTicket run) override { return okStatus(); }
  Status runPrefix(int program, int64_t steps) override {
    return runLaunches(program, static_cast<size_t>(steps)).status();
  }
  Status runObserved(int program, int64_t steps,
                     const LaunchObserver &observe) override {
    return runLaunches(program, static_cast<size_t>(steps), {}, observe)
        .status();
  }
  std::optional<Buffer> input(std::string_view name) const override;
  DeviceMemory &memory() override { return hostMemory(); }
  std::string deviceName() const override;
  LaunchCounts launchCounts(int program) const override { return {}; }
  MemoryReport memoryReport() const override {
    return {.plan = plan().info().forecast.total()};
  }

protected:
  std::byte *address(uint32_t buffer) const override {
    const plan::Buffer &entry = *plan().raw().buffers()->Get(buffer);
    return arenas[entry.arena()].data() + entry.offset();
  }
  std::byte *outputSlot(int64_t slot) const override {
    return outputs->data() + slot * outputSlotBytes();
  }

private:
  Status allocate();
  Status loadCode();
  Status prepare();
  StatusOr<Launch> prepareStep(const plan::Step &step);
  void poison();
  /// Runs the first `count` launches; takes their times where there is room.
  StatusOr<RunTicket> runLaunches(int program, size_t count,
                                  std::span<float> milliseconds = {},
                                  const LaunchObserver &observe = {});

  ExecutorOptions options;
  CodeImage code; // outlives the launches that point into it
  std::vector<Arena> arenas;
  std::optional<Arena> outputs; ///< the ring's slots; touched as they are used
  std::vector<std::vector<Launch>> programs;
};

} // namespace

Status CpuExecutor::load() {
  // Loading and initialisation run on as many threads as the launches.
  if (options.threads > 0)
    omp_set_num_threads(options.threads);
  QWEN_RETURN_IF_ERROR(checkCpuTarget(kernelTarget, "the CPU kernels need"));
  QWEN_RETURN_IF_ERROR(checkCpuTarget(plan().info().target));
  QWEN_RETURN_IF_ERROR(findOutputRanges());
  QWEN_RETURN_IF_ERROR(allocate());
  QWEN_RETURN_IF_ERROR(loadCode());
  return prepare();
}

Status CpuExecutor::allocate() {
  const plan::Plan &raw = plan().raw();
  int64_t total = 0;
  if (raw.arenas())
    for (const plan::Arena *arena : *raw.arenas())
      total += static_cast<int64_t>(arena->size());
  QWEN_ASSIGN_OR_RETURN(int64_t available, availableMemory());
  if (total > available)
    return makeError(StatusCode::ResourceExhausted,
                     "the plan needs {:.2f} GiB of memory; {:.2f} GiB are "
                     "available",
                     double(total) / (1 << 30), double(available) / (1 << 30));
  if (raw.arenas())
    for (const plan::Arena *arena : *raw.arenas()) {
      QWEN_ASSIGN_OR_RETURN(Arena memory,
                            Arena::allocate(static_cast<int64_t>(arena->size()),
                                            options.hugePages));
      arenas.push_back(std::move(memory));
    }
  QWEN_ASSIGN_OR_RETURN(
      outputs, Arena::allocate(runsInFlight * outputSlotBytes(), false));
  return okStatus();
}

Status CpuExecutor::loadCode() {
  const plan::Code *blob = plan().raw().code();
  if (!blob || !blob->object() || blob->object()->size() == 0)
    return okStatus();
  auto bytes =
      std::as_bytes(std::span(blob->object()->data(), blob->object()->size()));
  QWEN_ASSIGN_OR_RETURN(code, CodeImage::load(bytes));
  return okStatus();
}

StatusOr<Launch> CpuExecutor::prepareStep(const plan::Step &step) {
  const plan::Plan &raw = plan().raw();
  auto resolve = [&](uint32_t id, auto &buffer) {
    const plan::View &view = *raw.views()->Get(id);
    static_cast<BufferType &>(buffer) =
        toBufferType(*raw.types()->Get(view.type()));
    buffer.data = address(view.buffer()) + view.byte_offset();
    return okStatus();
  };
  Launch launch{};
  if (raw.workspace() != noPlanId)
    launch.context.workspace = {address(raw.workspace()),
                                raw.buffers()->Get(raw.workspace())->size()};
  QWEN_RETURN_IF_ERROR(visitStep(step, resolve, [&](auto &args) {
    using Args = std::decay_t<decltype(args)>;
    if constexpr (std::is_same_v<Args, GroupArgs>) {
      QWEN_ASSIGN_OR_RETURN(void *function, code.find(args.symbol));
      launch.context.group = reinterpret_cast<cpu::GroupFunction>(function);
    }
    if constexpr (std::is_same_v<Args, AdamWArgs>)
      QWEN_RETURN_IF_ERROR(expandBuckets(args));
    if constexpr (holdsPartOfTable<Args>)
      args.begin -= ranks().rank() * args.shard.elements();
    if constexpr (isCollective<Args>)
      QWEN_RETURN_IF_ERROR(cpu::checkCollective(args, ranks()));
    launch.function = launchOnCpu<Args>;
    launch.args = std::make_shared<const Args>(std::move(args));
    return okStatus();
  }));
  return launch;
}

Status CpuExecutor::prepare() {
  if (!plan().raw().programs())
    return okStatus();
  for (const plan::Program *program : *plan().raw().programs()) {
    std::vector<Launch> &launches = programs.emplace_back();
    if (!program->steps())
      continue;
    launches.reserve(program->steps()->size());
    for (const plan::Step *step : *program->steps()) {
      QWEN_ASSIGN_OR_RETURN(Launch launch, prepareStep(*step));
      launches.push_back(std::move(launch));
    }
  }
  return okStatus();
}

/// All bits set is a NaN in every float format and -1 in i32.
void CpuExecutor::poison() {
  for (size_t i = 0; i < arenas.size(); ++i) {
    plan::BufferClass holds = plan().raw().arenas()->Get(i)->holds();
    if (holds == plan::BufferClass::Activation ||
        holds == plan::BufferClass::Workspace ||
        holds == plan::BufferClass::Output)
      std::memset(arenas[i].data(), 0xff, arenas[i].bytes().size());
  }
}

StatusOr<RunTicket> CpuExecutor::runLaunches(int program, size_t count,
                                             std::span<float> milliseconds,
                                             const LaunchObserver &observe) {
  // The number of threads belongs to the calling thread in OpenMP.
  if (options.threads > 0)
    omp_set_num_threads(options.threads);
  if (options.poison)
    poison();
  std::span<const Launch> launches = programs[static_cast<size_t>(program)];
  using Clock = std::chrono::steady_clock;
  Clock::time_point before =
      milliseconds.empty() ? Clock::time_point() : Clock::now();
  for (size_t i = 0; i < count; ++i) {
    ranks().note(Activity::Launching);
    QWEN_RETURN_IF_ERROR(launches[i].function(launches[i].args.get(),
                                              launches[i].context, ranks()));
    if (observe) {
      ranks().note(Activity::Other);
      QWEN_RETURN_IF_ERROR(observe(static_cast<int64_t>(i)));
    }
    if (milliseconds.empty())
      continue;
    Clock::time_point after = Clock::now();
    milliseconds[i] =
        std::chrono::duration<float, std::milli>(after - before).count();
    before = after;
  }
  ranks().note(Activity::Other);
  RunTicket run = nextRun(program);
  const OutputRange &range = outputRange(program);
  if (range.bytes() > 0)
    std::memcpy(outputSlot(slotOf(run)),
                arenas[range.arena].data() + range.begin,
                static_cast<size_t>(range.bytes()));
  return run;
}

std::optional<Buffer> CpuExecutor::input(std::string_view name) const {
  const PlanPort *port = plan().findInput(name);
  if (!port)
    return std::nullopt;
  return view(port->place);
}

std::string CpuExecutor::deviceName() const {
  return fmt::format("CPU, {} threads", omp_get_max_threads());
}

StatusOr<std::unique_ptr<Executor>>
qwen::createCpuExecutor(const Plan &plan, const ExecutorOptions &options) {
  auto executor = std::make_unique<CpuExecutor>(plan, options);
  QWEN_RETURN_IF_ERROR(executor->load());
  return std::unique_ptr<Executor>(std::move(executor));
}
