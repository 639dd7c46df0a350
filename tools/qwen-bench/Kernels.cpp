//===- Kernels.cpp - Times of the hand-written CUDA kernels ---------------===//

#include "Commands.h"
#include "KernelBench.h"
#include "KernelShapes.h"

#include "runtime/support/Print.h"

#include <algorithm>
#include <cstdio>
#include <memory>

using namespace qwen;
using namespace qwen::bench;

std::vector<std::string> bench::kernelModels() {
  std::vector<std::string> names;
  for (const ModelShape &shape : modelShapes)
    names.push_back(shape.name);
  return names;
}

StatusOr<KernelBench> KernelBench::create(const KernelsOptions &options) {
  KernelBench made(options);
  if (options.once)
    return made;
  QWEN_ASSIGN_OR_RETURN(made.copyRate, measureCopyRate());
  QWEN_ASSIGN_OR_RETURN(made.matrixRate, measureMatrixRate(DType::BF16));
  qwen::print(stdout,
              "{{\"bench\": \"ceilings\", \"side\": \"ours\", \"copy_tbps\": "
              "{:.3f}, \"matrix_tflops\": {:.1f}}}\n",
              made.copyRate * 1e-12, made.matrixRate * 1e-12);
  return made;
}

bool KernelBench::wants(std::string_view kernel) const {
  return options.only.empty() ||
         std::find(options.only.begin(), options.only.end(), kernel) !=
             options.only.end();
}

Status KernelBench::runOnce(const std::function<Status()> &enqueue) {
  QWEN_RETURN_IF_ERROR(enqueue());
  return cudaStatus(cudaDeviceSynchronize(), "kernel");
}

Status KernelBench::measureProducts(const std::vector<GemmArgs> &products,
                                    const char *name,
                                    const KernelLine &line) const {
  std::vector<KernelRun<GemmArgs>> runs;
  double flops = 0, bytes = 0;
  for (const GemmArgs &args : products) {
    QWEN_ASSIGN_OR_RETURN(auto run, KernelRun<GemmArgs>::create(args));
    runs.push_back(std::move(run));
    flops += double(kernelFlops(args));
    bytes += double(kernelBytes(args));
  }
  auto enqueue = [&](cudaStream_t stream) {
    for (const KernelRun<GemmArgs> &run : runs)
      QWEN_RETURN_IF_ERROR(run.enqueue(stream));
    return okStatus();
  };
  if (options.once)
    return runOnce([&] { return enqueue(nullptr); });
  TimingOptions timing;
  timing.samples = options.samples;
  QWEN_ASSIGN_OR_RETURN(Times times, timeReplay(enqueue, timing));
  print(name, line, times, flops, bytes);
  return okStatus();
}

void KernelBench::print(const char *kernel, const KernelLine &line,
                        const Times &times, double flops, double bytes) const {
  double floor =
      1e3 * std::max(bytes / copyRate, line.matrixFlops / matrixRate);
  std::string place;
  if (!line.model.empty())
    place += fmt::format(", \"model\": \"{}\"", line.model);
  if (line.tokens > 0)
    place += fmt::format(", \"tokens\": {}", line.tokens);
  if (line.documents > 0)
    place += fmt::format(", \"documents\": {}", line.documents);
  qwen::print(
      stdout,
      "{{\"bench\": \"kernel\", \"side\": \"ours\", \"kernel\": \"{}\", "
      "\"shape\": \"{}\"{}, \"median_ms\": {:.4f}, \"min_ms\": {:.4f}, "
      "\"max_ms\": {:.4f}, \"samples\": {}, \"flops\": {:.6g}, \"bytes\": "
      "{:.6g}, \"tflops\": {:.1f}, \"tbps\": {:.3f}, \"floor_ms\": {:.4f}, "
      "\"of_floor\": {:.3f}}}\n",
      kernel, line.shape, place, times.median, times.least, times.most,
      times.samples, flops, bytes, flops / times.median * 1e-9,
      bytes / times.median * 1e-9, floor, times.median / floor);
  std::fflush(stdout);
}

namespace {
/// Kernels that are timed together, by the name that --only takes.
struct KernelGroup {
  const char *name;
  Status (*run)(const KernelBench &, const KernelsOptions &);
};
} // namespace

static constexpr KernelGroup groups[] = {
    {"gated_delta", benchGatedDelta},    {"causal_conv1d", benchConv},
    {"attention", benchAttention},       {"embedding", benchEmbedding},
    {"linear_cross_entropy", benchLoss}, {"moves", benchMoves},
    {"adamw", benchOptimizer},
};

Status bench::benchKernels(const KernelsOptions &options) {
  for (const std::string &model : options.models)
    if (!findModelShape(model))
      return invalidArgument("expected models of {}, found '{}'",
                             fmt::join(kernelModels(), ", "), model);
  QWEN_ASSIGN_OR_RETURN(KernelBench bench, KernelBench::create(options));
  for (const KernelGroup &group : groups)
    if (bench.wants(group.name))
      QWEN_RETURN_IF_ERROR(group.run(bench, options));
  return okStatus();
}

Action bench::addKernelsCommand(CLI::App &command) {
  auto options = std::make_shared<KernelsOptions>();
  addNumbers(command, "--documents", options->documents, positiveCount,
             "Lengths of the documents of a pack; each kernel runs on "
             "them and on one document of as many tokens");
  command.add_option("--models", options->models, "Whose heads and widths")
      ->delimiter(',')
      ->check(CLI::IsMember(kernelModels()));
  std::vector<std::string> names;
  for (const KernelGroup &group : groups)
    names.push_back(group.name);
  command
      .add_option("--only", options->only,
                  "Only these, with their gradients; moves: angles, fill, copy")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  addNumber(command, "--samples", options->samples,
            OptionRange::whole(1, 10000), "Timed samples of a kernel");
  command.add_flag("--once", options->once,
                   "Launch each kernel once, untimed; for profilers");
  return [options] { return benchKernels(*options); };
}
