//===- Implementations.cpp - What runs a kernel on a target ---------------===//

#include "runtime/profile/Implementations.h"

#include "runtime/plan/PlanSteps.h"

#include <map>
#include <set>

using namespace qwen;

namespace {

/// What the launches of one kernel have in common and how they differ.
struct Launches {
  KernelUse use;
  std::set<std::string> symbols; ///< of generated code
  std::set<int64_t> chunks;
  int64_t products = 0;     ///< of matrices, through a library on a GPU
  int64_t fromTheTable = 0; ///< those whose algorithm is in the plan
};

/// Notes what the words depend on.
template <typename Args> void note(const Args &args, Launches &launches) {
  auto product = [&](const std::vector<int64_t> &algorithm) {
    ++launches.products;
    launches.fromTheTable += !algorithm.empty();
  };
  if constexpr (requires { args.symbol; })
    launches.symbols.insert(args.symbol);
  if constexpr (requires { args.chunk; })
    launches.chunks.insert(args.chunk);
  if constexpr (requires { args.algorithm; })
    product(args.algorithm);
  if constexpr (requires { args.logitsAlgorithm; })
    product(args.logitsAlgorithm);
  if constexpr (requires { args.dxAlgorithm; })
    product(args.dxAlgorithm);
  if constexpr (requires { args.dweightAlgorithm; })
    product(args.dweightAlgorithm);
}

std::string listChunks(const Launches &launches) {
  std::string text;
  for (int64_t chunk : launches.chunks)
    text += fmt::format("{}{}", text.empty() ? "" : "/", chunk);
  return text;
}

/// "12 of 15 tuned", of the library's products.
std::string describeTuning(const Launches &launches) {
  return fmt::format("{} of {} products tuned", launches.fromTheTable,
                     launches.products);
}

bool isCollectiveName(std::string_view kernel) {
  return kernel == AllGatherArgs::kernelName ||
         kernel == ReduceScatterArgs::kernelName;
}

std::string describeCuda(std::string_view kernel, const Launches &launches) {
  if (kernel == "gemm")
    return "cuBLASLt, " + describeTuning(launches);
  if (kernel.starts_with("linear_cross_entropy"))
    return "cuBLASLt and rows in registers, " + describeTuning(launches);
  if (kernel.starts_with("gated_delta"))
    return "wgmma and TMA, chunk " + listChunks(launches);
  if (kernel.starts_with("attention"))
    return "wgmma and TMA";
  if (kernel == "grad_norm" || kernel == "grad_norm_local" || kernel == "adamw")
    return "CUDA, all tensors in a launch";
  if (isCollectiveName(kernel))
    return kernel == AllGatherArgs::kernelName ? "copies between GPUs, or NCCL"
                                               : "NCCL and CUDA";
  return "CUDA";
}

std::string describeCpu(std::string_view kernel, const Launches &launches) {
  if (kernel.starts_with("gated_delta"))
    return "C++, chunk " + listChunks(launches);
  if (isCollectiveName(kernel))
    return "MPI";
  return launches.products > 0 ? "C++, packed tiles" : "C++";
}

std::string describe(TargetKind target, const Launches &launches) {
  const std::string &kernel = launches.use.kernel;
  if (!launches.symbols.empty())
    return fmt::format("generated, {} distinct", launches.symbols.size());
  return target == TargetKind::Cuda ? describeCuda(kernel, launches)
                                    : describeCpu(kernel, launches);
}

/// Adds one step to its row.
Status countStep(const plan::Step &step, const Plan &plan,
                 const PlanPort *boundaries, size_t program,
                 std::map<std::string, Launches> &rows) {
  // Operands that are the input cu_seqlens get this address, others none.
  static int marker;
  auto resolve = [&](uint32_t id, auto &buffer) {
    const plan::View *view = plan.raw().views()->Get(id);
    buffer.data = boundaries && view->buffer() == boundaries->place.buffer
                      ? &marker
                      : nullptr;
    return okStatus();
  };
  return visitStep(step, resolve, [&](auto &args) -> Status {
    Launches &row = rows[args.kernelName];
    row.use.kernel = args.kernelName;
    row.use.launches.resize(plan.programs().size());
    ++row.use.launches[program];
    note(args, row);
    if constexpr (requires { args.cuSeqlens; }) {
      row.use.readsBoundaries = true;
      if (args.cuSeqlens.data != &marker)
        return makeError(StatusCode::FailedPrecondition,
                         "a '{}' of program '{}' does not take its document "
                         "boundaries from the input 'cu_seqlens'",
                         args.kernelName, plan.programs()[program].name);
    }
    return okStatus();
  });
}

} // namespace

StatusOr<std::vector<KernelUse>> qwen::kernelUses(const Plan &plan) {
  std::map<std::string, Launches> rows;
  const PlanPort *boundaries = plan.findInput("cu_seqlens");
  for (size_t program = 0; program < plan.programs().size(); ++program) {
    auto *steps = plan.raw().programs()->Get(unsigned(program))->steps();
    for (unsigned i = 0; steps && i < steps->size(); ++i)
      QWEN_RETURN_IF_ERROR(
          countStep(*steps->Get(i), plan, boundaries, program, rows));
  }
  std::vector<KernelUse> uses;
  for (auto &[name, row] : rows) {
    row.use.implementation = describe(plan.info().targetKind, row);
    uses.push_back(std::move(row.use));
  }
  return uses;
}

double qwen::peakTflops(TargetKind target) {
  return target == TargetKind::Cuda ? 989.4 : 0;
}
