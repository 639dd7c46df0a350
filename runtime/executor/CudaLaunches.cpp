//===- CudaLaunches.cpp - The launches of a plan on a GPU -----------------===//
//
// The kernel list (QWEN_KERNELS) drives it.
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/CudaLaunches.h"
#include "runtime/plan/PlanSteps.h"
#include "runtime/support/Json.h"

#include <algorithm>

using namespace qwen;

/// Whether kernels of a GPU run these arguments at all.
template <typename Args>
constexpr bool hasLaunch =
    requires(const Args &args, const cuda::LaunchContext &context) {
      cuda::launch(args, context);
    };

template <typename Args>
static cudaError_t launchAs(const void *args,
                            const cuda::LaunchContext &context) {
  return cuda::launch(*static_cast<const Args *>(args), context);
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
  int64_t tableBytes = 0;
  QWEN_RETURN_IF_ERROR(
      forEachStep(raw, [&](uint32_t, uint32_t, const plan::Step &step) {
        return visitStep(step, typeResolver(raw), [&](auto &args) {
          needsBlas |= cuda::usesBlas<std::decay_t<decltype(args)>>;
          tableBytes += cuda::tableBytes(args);
          return okStatus();
        });
      }));
  if (needsBlas) {
    QWEN_ASSIGN_OR_RETURN(blas, cuda::Blas::create());
  }
  neededTableBytes = tableBytes;
  QWEN_ASSIGN_OR_RETURN(code, cuda::GroupCode::load(raw));
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
  if constexpr (hasLaunch<Args>) // else there was a reason
    launch.function = launchAs<Args>;
  launch.args = std::make_shared<const Args>(std::move(args));
  return okStatus();
}

Status
CudaLaunches::prepare(const Plan &plan,
                      const std::function<std::byte *(uint32_t)> &address,
                      cudaStream_t stream) {
  const plan::Plan &raw = plan.raw();
  QWEN_ASSIGN_OR_RETURN(
      tables, CudaArena::allocate(neededTableBytes, "tensor addresses"));
  auto resolve = [&](uint32_t id, auto &buffer) {
    const plan::View &view = *raw.views()->Get(id);
    static_cast<BufferType &>(buffer) =
        toBufferType(*raw.types()->Get(view.type()));
    buffer.data = address(view.buffer()) + view.byte_offset();
    return okStatus();
  };
  programs.resize(plan.programs().size());
  return forEachStep(raw, [&](uint32_t program, uint32_t index,
                              const plan::Step &step) {
    CudaLaunch &launch = programs[program].emplace_back();
    launch.context.stream = stream;
    if (raw.workspace() != noPlanId)
      launch.context.workspace = {address(raw.workspace()),
                                  raw.buffers()->Get(raw.workspace())->size()};
    launch.what = fmt::format("step {}", index);
    Status status = visitStep(step, resolve, [&](auto &args) {
      launch.what += fmt::format(" ({}", args.kernelName);
      if constexpr (requires { args.symbol; })
        launch.what += " " + printable(args.symbol);
      if (step.label() != noPlanId)
        launch.what += fmt::format(
            " of {}",
            printable(raw.labels()->Get(step.label())->string_view()));
      launch.what += ")";
      return prepareArgs(std::move(args), launch);
    });
    return status.withContext(fmt::format(
        "program '{}', {}", plan.programs()[program].name, launch.what));
  });
}

std::string CudaLaunches::warning() const {
  return blas ? blas->warning() : std::string();
}
