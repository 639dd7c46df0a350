//===- Executor.cpp - Runs the programs of a plan -------------------------===//
//
// Everything that can fail or allocate happens in `create`.
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/Executor.h"
#include "runtime/executor/Arena.h"
#include "runtime/executor/CodeImage.h"
#include "runtime/kernels/cpu/Kernels.h"
#include "runtime/plan/PlanSteps.h"

#include <algorithm>
#include <cstring>
#include <omp.h>

using namespace qwen;

namespace {

/// What the library kernels are compiled for (runtime/kernels/cpu).
constexpr std::string_view kernelTarget = "x86-64-v3";

/// A launch with everything resolved.
struct Launch {
  void (*function)(const void *args, const cpu::LaunchContext &context);
  std::shared_ptr<const void> args;
  cpu::LaunchContext context;
};

template <typename Args>
void launchAs(const void *args, const cpu::LaunchContext &context) {
  cpu::launch(*static_cast<const Args *>(args), context);
}

} // namespace

struct Executor::State {
  explicit State(const Plan &plan) : plan(plan) {}

  Status allocate(bool hugePages);
  Status loadCode();
  Status prepare();
  StatusOr<Launch> prepareStep(const plan::Step &step);
  void poison();

  std::byte *address(uint32_t buffer) const {
    const plan::Buffer &entry = *plan.raw().buffers()->Get(buffer);
    return arenas[entry.arena()].data() + entry.offset();
  }
  Buffer view(const PlanPlace &place) const {
    if (!place.exists())
      return {};
    return {place.type, address(place.buffer) + place.byteOffset};
  }

  Plan plan;
  ExecutorOptions options;
  CodeImage code; // outlives the launches that point into it
  std::vector<Arena> arenas;
  std::vector<std::vector<Launch>> programs;
};

Status Executor::State::allocate(bool hugePages) {
  const plan::Plan &raw = plan.raw();
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
      QWEN_ASSIGN_OR_RETURN(
          Arena memory,
          Arena::allocate(static_cast<int64_t>(arena->size()), hugePages));
      arenas.push_back(std::move(memory));
    }
  return okStatus();
}

Status Executor::State::loadCode() {
  const plan::Code *blob = plan.raw().code();
  if (!blob || !blob->object() || blob->object()->size() == 0)
    return okStatus();
  auto bytes =
      std::as_bytes(std::span(blob->object()->data(), blob->object()->size()));
  QWEN_ASSIGN_OR_RETURN(code, CodeImage::load(bytes));
  return okStatus();
}

StatusOr<Launch> Executor::State::prepareStep(const plan::Step &step) {
  const plan::Plan &raw = plan.raw();
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
    launch.function = launchAs<Args>;
    launch.args = std::make_shared<const Args>(std::move(args));
    return okStatus();
  }));
  return launch;
}

Status Executor::State::prepare() {
  if (!plan.raw().programs())
    return okStatus();
  for (const plan::Program *program : *plan.raw().programs()) {
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
void Executor::State::poison() {
  for (size_t i = 0; i < arenas.size(); ++i) {
    plan::BufferClass holds = plan.raw().arenas()->Get(i)->holds();
    if (holds == plan::BufferClass::Activation ||
        holds == plan::BufferClass::Workspace ||
        holds == plan::BufferClass::Output)
      std::memset(arenas[i].data(), 0xff, arenas[i].bytes().size());
  }
}

StatusOr<Executor> Executor::create(const Plan &plan,
                                    const ExecutorOptions &options) {
  // Loading and initialisation run on as many threads as the launches.
  if (options.threads > 0)
    omp_set_num_threads(options.threads);
  QWEN_RETURN_IF_ERROR(checkCpuTarget(kernelTarget, "the CPU kernels need"));
  QWEN_RETURN_IF_ERROR(checkCpuTarget(plan.info().target));
  auto state = std::make_unique<State>(plan);
  state->options = options;
  QWEN_RETURN_IF_ERROR(state->allocate(options.hugePages));
  QWEN_RETURN_IF_ERROR(state->loadCode());
  QWEN_RETURN_IF_ERROR(state->prepare());
  return Executor(std::move(state));
}

Executor::Executor(std::unique_ptr<State> state) : state(std::move(state)) {}
Executor::Executor(Executor &&) noexcept = default;
Executor &Executor::operator=(Executor &&) noexcept = default;
Executor::~Executor() = default;

void Executor::run(int program) {
  runPrefix(program, static_cast<int64_t>(state->programs[program].size()));
}

void Executor::runPrefix(int program, int64_t steps) {
  // The number of threads belongs to the calling thread in OpenMP.
  if (state->options.threads > 0)
    omp_set_num_threads(state->options.threads);
  if (state->options.poison)
    state->poison();
  std::span<const Launch> launches = state->programs[program];
  for (const Launch &launch : launches.first(static_cast<size_t>(steps)))
    launch.function(launch.args.get(), launch.context);
}

const Plan &Executor::plan() const { return state->plan; }

std::optional<Buffer> Executor::input(std::string_view name) const {
  const PlanPort *port = state->plan.findInput(name);
  if (!port)
    return std::nullopt;
  return state->view(port->place);
}

std::optional<Buffer> Executor::output(int program,
                                       std::string_view name) const {
  for (const PlanPort &port : state->plan.programs()[program].outputs)
    if (port.name == name)
      return state->view(port.place);
  return std::nullopt;
}

Buffer Executor::parameter(int i) const {
  return state->view(state->plan.parameters()[i].value);
}
Buffer Executor::gradient(int i) const {
  return state->view(state->plan.parameters()[i].gradient);
}
Buffer Executor::moment1(int i) const {
  return state->view(state->plan.parameters()[i].moment1);
}
Buffer Executor::moment2(int i) const {
  return state->view(state->plan.parameters()[i].moment2);
}
Buffer Executor::master(int i) const {
  return state->view(state->plan.parameters()[i].master);
}
