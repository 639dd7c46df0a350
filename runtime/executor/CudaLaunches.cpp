//===- CudaLaunches.cpp - The launches of a plan on a GPU -----------------===//
//
// The kernel list (QWEN_KERNELS) drives it.
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/CudaLaunches.h"
#include "qwen/Plan/KernelCosts.h"
#include "runtime/plan/PlanSteps.h"
#include "runtime/support/Json.h"

#include <algorithm>

using namespace qwen;

template <typename Args>
static Status launchOnGpu(const void *args, const cuda::LaunchContext &context,
                          NcclCommunicator *ranks) {
  const Args &a = *static_cast<const Args *>(args);
  if constexpr (std::is_same_v<Args, AllGatherArgs>) {
    return ranks->allGather(a.shard.data, a.full.data, a.shard.bytes(),
                            context.stream);
  } else if constexpr (std::is_same_v<Args, ReduceScatterArgs>) {
    int64_t elements = a.shard.elements();
    float *all = a.full.template as<float>();
    // The sum needs no further pass where it is the shard.
    bool isShard = !a.accumulate && a.shard.dtype == DType::F32;
    float *sum =
        isShard ? a.shard.template as<float>() : all + ranks->rank() * elements;
    QWEN_RETURN_IF_ERROR(
        ranks->reduceScatter(all, sum, elements, context.stream));
    if (isShard)
      return okStatus();
    return cudaStatus(cuda::storeSums(sum, a, context.stream),
                      "cannot launch the kernel");
  } else {
    return cudaStatus(cuda::launch(a, context), "cannot launch the kernel");
  }
}

namespace {
/// An all_gather that is a copy from each rank's memory. Nobody may write a
/// shard while others read it, so that the first one of a program waits until
/// all ranks have come there, with what they wrote before, and the last one
/// until all have read.
struct CopiedGather {
  AllGatherArgs args;
  const CudaPeers *peers;
  bool isFirst = false, isLast = false;
};
} // namespace

static Status launchCopies(const void *args, const cuda::LaunchContext &context,
                           NcclCommunicator *) {
  const auto &gather = *static_cast<const CopiedGather *>(args);
  if (gather.isFirst)
    QWEN_RETURN_IF_ERROR(gather.peers->meet(context.stream));
  QWEN_RETURN_IF_ERROR(
      gather.peers->allGather(gather.args.shard.data, gather.args.full.data,
                              gather.args.shard.bytes(), context.stream));
  return gather.isLast ? gather.peers->meet(context.stream) : okStatus();
}

/// Calls visit(program, index, step) for every step of a plan.
template <typename Visit>
static Status forEachStep(const plan::Plan &raw, Visit &&visit) {
  for (uint32_t p = 0; raw.programs() && p < raw.programs()->size(); ++p) {
    const auto *steps = raw.programs()->Get(p)->steps();
    for (uint32_t i = 0; steps && i < steps->size(); ++i)
      QWEN_RETURN_IF_ERROR(visit(p, i, *steps->Get(i)));
  }
  return okStatus();
}

/// The types of a step's arguments, without addresses.
static auto typeResolver(const plan::Plan &raw) {
  return [&raw](uint32_t id, auto &buffer) {
    static_cast<BufferType &>(buffer) =
        toBufferType(*raw.types()->Get(raw.views()->Get(id)->type()));
    return okStatus();
  };
}

Status CudaLaunches::loadCode(const Plan &plan) {
  const plan::Plan &raw = plan.raw();
  bool needsBlas = false;
  QWEN_RETURN_IF_ERROR(
      forEachStep(raw, [&](uint32_t, uint32_t, const plan::Step &step) {
        return visitStep(step, typeResolver(raw), [&](auto &args) {
          needsBlas |= cuda::usesBlas<std::decay_t<decltype(args)>>;
          return okStatus();
        });
      }));
  if (needsBlas) {
    QWEN_ASSIGN_OR_RETURN(blas, cuda::Blas::create());
  }
  QWEN_ASSIGN_OR_RETURN(code, cuda::GroupCode::load(raw));
  return okStatus();
}

/// Puts a rank's slices in the place of shards where the arguments have any,
/// and its place in a table that the ranks hold in parts.
template <typename Args>
static Status expand(Args &args, const CudaLaunches::Places &places) {
  if constexpr (std::is_same_v<Args, AdamWArgs>)
    return places.expandBuckets(args);
  if constexpr (holdsPartOfTable<Args>)
    args.begin -= places.ranks->rank() * args.shard.elements();
  return okStatus();
}

Status CudaLaunches::allocateTables(const Plan &plan, const Places &places) {
  const plan::Plan &raw = plan.raw();
  int64_t bytes = 0;
  QWEN_RETURN_IF_ERROR(
      forEachStep(raw, [&](uint32_t, uint32_t, const plan::Step &step) {
        return visitStep(step, typeResolver(raw), [&](auto &args) -> Status {
          QWEN_RETURN_IF_ERROR(expand(args, places));
          bytes += cuda::tableBytes(args);
          return okStatus();
        });
      }));
  QWEN_ASSIGN_OR_RETURN(tables, CudaArena::allocate(bytes, "tensor addresses"));
  return okStatus();
}

Status CudaLaunches::prepareWaits(uint32_t program, const plan::Step &step,
                                  CudaLaunch &launch) {
  launch.stream = step.stream();
  if (!step.waits())
    return okStatus();
  launch.waits = toVector(*step.waits());
  for (uint32_t wait : launch.waits)
    if (CudaEvent &done = programs[program][wait].done; !done)
      QWEN_RETURN_IF_ERROR(createEvent(done));
  return okStatus();
}

template <typename Args>
Status CudaLaunches::prepareArgs(Args args, CudaLaunch &launch) {
  if (std::string reason = cuda::unsupportedReason(args); !reason.empty())
    return makeError(StatusCode::FailedPrecondition,
                     "no CUDA kernel for this {}: {}", args.kernelName, reason);
  auto scratch = cuda::workspaceBytes(args);
  if (scratch > static_cast<int64_t>(launch.context.workspace.size()))
    return dataLoss("{} needs {} bytes of workspace, the plan has {}",
                    args.kernelName, scratch, launch.context.workspace.size());
  if constexpr (cuda::usesBlas<Args>) {
    QWEN_RETURN_IF_ERROR(cuda::prepare(args, *blas));
    launch.context.blas = blas.get();
  }
  if constexpr (std::is_same_v<Args, GroupArgs>) {
    QWEN_ASSIGN_OR_RETURN(launch.context.group, code.find(args.symbol));
  }
  if constexpr (requires { cuda::writeTable(args, launch.context.table); }) {
    auto bytes = static_cast<size_t>(cuda::tableBytes(args));
    launch.context.table = tables.bytes().subspan(usedTableBytes, bytes);
    usedTableBytes += bytes;
    QWEN_RETURN_IF_ERROR(
        cudaStatus(cuda::writeTable(args, launch.context.table),
                   "cannot write the address table"));
  }
  launch.function = launchOnGpu<Args>;
  launch.args = std::make_shared<const Args>(std::move(args));
  return okStatus();
}

Status CudaLaunches::prepare(const Plan &plan, const Places &places) {
  const plan::Plan &raw = plan.raw();
  ranks = places.ranks;
  streams = places.streams;
  QWEN_RETURN_IF_ERROR(allocateTables(plan, places));
  auto resolve = [&](uint32_t id, auto &buffer) {
    const plan::View &view = *raw.views()->Get(id);
    static_cast<BufferType &>(buffer) =
        toBufferType(*raw.types()->Get(view.type()));
    buffer.data = places.address(view.buffer()) + view.byte_offset();
    return okStatus();
  };
  programs.resize(plan.programs().size());
  QWEN_RETURN_IF_ERROR(forEachStep(raw, [&](uint32_t program, uint32_t index,
                                            const plan::Step &step) {
    CudaLaunch launch;
    launch.what = fmt::format("step {}", index);
    Status status = prepareWaits(program, step, launch);
    launch.context.stream = (*streams)[launch.stream];
    if (raw.workspace() != noPlanId)
      launch.context.workspace = {places.address(raw.workspace()),
                                  raw.buffers()->Get(raw.workspace())->size()};
    if (status.ok())
      status = visitStep(step, resolve, [&](auto &args) -> Status {
        launch.what += fmt::format(" ({}", args.kernelName);
        if constexpr (requires { args.symbol; })
          launch.what += " " + printable(args.symbol);
        if (step.label() != noPlanId)
          launch.what += fmt::format(
              " of {}",
              printable(raw.labels()->Get(step.label())->string_view()));
        launch.what += ")";
        QWEN_RETURN_IF_ERROR(expand(args, places));
        return prepareArgs(std::move(args), launch);
      });
    QWEN_RETURN_IF_ERROR(status.withContext(fmt::format(
        "program '{}', {}", plan.programs()[program].name, launch.what)));
    programs[program].push_back(std::move(launch));
    return okStatus();
  }));
  if (places.peers)
    copyGathers(plan, *places.peers);
  return okStatus();
}

/// Whether a launch of the program writes what ranks gather.
static bool writesParameters(const plan::Plan &raw,
                             const plan::Program &program) {
  bool writes = false;
  auto isParameter = [&](uint32_t view) {
    uint32_t buffer = raw.views()->Get(view)->buffer();
    return raw.arenas()->Get(raw.buffers()->Get(buffer)->arena())->holds() ==
           plan::BufferClass::Parameter;
  };
  std::vector<uint32_t> views;
  auto resolve = [&](uint32_t id, auto &buffer) {
    static_cast<BufferType &>(buffer) =
        toBufferType(*raw.types()->Get(raw.views()->Get(id)->type()));
    views.push_back(id);
    return okStatus();
  };
  for (uint32_t i = 0; program.steps() && i < program.steps()->size(); ++i) {
    views.clear();
    // The plan is verified: every step has a known kernel.
    (void)visitStep(*program.steps()->Get(i), resolve, [&](auto &args) {
      size_t next = 0;
      forEachAccess(args,
                    [&](const char *, const BufferType &, bool, bool written) {
                      writes |= isParameter(views[next++]) && written;
                    });
      return okStatus();
    });
  }
  return writes;
}

/// Makes gathers copies where that is possible.
void CudaLaunches::copyGathers(const Plan &plan, const CudaPeers &peers) {
  const plan::Plan &raw = plan.raw();
  for (size_t index = 0; index < programs.size(); ++index) {
    if (writesParameters(raw, *raw.programs()->Get(uint32_t(index))))
      continue;
    std::vector<std::shared_ptr<CopiedGather>> copied;
    for (CudaLaunch &launch : programs[index]) {
      if (launch.function != launchOnGpu<AllGatherArgs>)
        continue;
      const auto &args = *static_cast<const AllGatherArgs *>(launch.args.get());
      if (!peers.reaches(args.shard.data, args.shard.bytes()))
        continue;
      copied.push_back(std::make_shared<CopiedGather>(args, &peers));
      launch.function = launchCopies;
      launch.args = copied.back();
    }
    if (copied.empty())
      continue;
    copied.front()->isFirst = true;
    copied.back()->isLast = true;
  }
}

bool CudaLaunches::communicates(int index) const {
  return std::any_of(
      program(index).begin(), program(index).end(),
      [](const CudaLaunch &launch) { return launch.stream > 0; });
}

Status CudaLaunches::enqueueWaits(int index, size_t launch) const {
  const std::vector<CudaLaunch> &all = program(index);
  for (uint32_t wait : all[launch].waits)
    QWEN_RETURN_IF_ERROR(
        cudaStatus(cudaStreamWaitEvent((*streams)[all[launch].stream],
                                       all[wait].done.get(), 0),
                   "cannot make a stream wait"));
  return okStatus();
}

Status CudaLaunches::enqueueWork(int index, size_t launch) const {
  const CudaLaunch &work = program(index)[launch];
  return work.function(work.args.get(), work.context, ranks);
}

Status CudaLaunches::enqueueDone(int index, size_t launch) const {
  const CudaLaunch &work = program(index)[launch];
  if (!work.done)
    return okStatus();
  return cudaStatus(cudaEventRecord(work.done.get(), (*streams)[work.stream]),
                    "cannot record an event");
}

Status CudaLaunches::enqueue(int index, size_t launch) const {
  QWEN_RETURN_IF_ERROR(enqueueWaits(index, launch));
  QWEN_RETURN_IF_ERROR(enqueueWork(index, launch));
  return enqueueDone(index, launch);
}

std::string CudaLaunches::warning() const {
  return blas ? blas->warning() : std::string();
}
