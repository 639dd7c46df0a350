//===- Tune.cpp - A tuning table of matrix products -----------------------===//
//
// The products of plans, each with the algorithm that was fastest on this card,
// as a table for qwenc.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "TuneProduct.h"

#include "runtime/plan/Plan.h"
#include "runtime/plan/PlanSteps.h"

#include <cstdio>
#include <fstream>
#include <memory>

#include <fmt/ranges.h>

using namespace qwen;
using namespace qwen::bench;
using cuda::GemmShape;

namespace {

struct TuneOptions {
  std::vector<std::string> plans;
  std::string keep; ///< a table whose other products are kept
  std::string output;
};

/// The products that a kernel runs.
template <typename Args>
void addProducts(const Args &args, std::set<GemmShape> &shapes) {
  if constexpr (std::is_same_v<Args, GemmArgs>) {
    shapes.insert(cuda::gemmShape(args));
  } else if constexpr (cuda::usesBlas<Args>) {
    cuda::LossBlocks blocks(args.x, args.weight);
    shapes.insert(blocks.logits());
    if constexpr (std::is_same_v<Args, LinearCrossEntropyGradArgs>) {
      shapes.insert(blocks.dx());
      shapes.insert(blocks.dweight(args.accumulate));
    }
  }
}

} // namespace

static Status addProducts(const Plan &plan, std::set<GemmShape> &shapes) {
  const plan::Plan &raw = plan.raw();
  auto resolve = [&](uint32_t id, BufferType &type) {
    type = toBufferType(*raw.types()->Get(raw.views()->Get(id)->type()));
    return okStatus();
  };
  for (const plan::Program *program : *raw.programs())
    for (const plan::Step *step : *program->steps())
      QWEN_RETURN_IF_ERROR(visitStep(*step, resolve, [&](auto &args) {
        if (cuda::unsupportedReason(args).empty())
          addProducts(args, shapes);
        return okStatus();
      }));
  return okStatus();
}

/// Writes the whole table: what is done is not lost when the rest fails.
static Status writeTable(const cuda::TuningTable &table,
                         const std::string &path, const std::string &header) {
  std::ofstream file(path);
  file << header << cuda::formatTuningTable(table);
  file.close();
  if (!file)
    return makeError(StatusCode::IoError, "cannot write {}", path);
  return okStatus();
}

static StatusOr<cuda::TuningTable> readTable(const std::string &path) {
  std::ifstream file(path);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file)
    return makeError(StatusCode::IoError, "cannot read {}", path);
  return cuda::parseTuningTable(text, path);
}

static void print(const GemmShape &shape, const TunedProduct &tuned) {
  fmt::print("{{\"bench\": \"tune\", \"product\": \"{}\", \"algorithm\": [{}], "
             "\"tflops\": {:.1f}, \"min_tflops\": {:.1f}, \"max_tflops\": "
             "{:.1f}, \"first_tflops\": {:.1f}, \"timed\": {}, \"refused\": "
             "{}}}\n",
             toString(shape), fmt::join(tuned.best.algorithm, ", "),
             tuned.best.tflops, tuned.least, tuned.most, tuned.best.firstTflops,
             tuned.timed, tuned.refused);
  std::fflush(stdout);
}

static Status runTune(const TuneOptions &options) {
  std::set<GemmShape> shapes;
  for (const std::string &path : options.plans) {
    QWEN_ASSIGN_OR_RETURN(Plan plan, Plan::load(path));
    QWEN_RETURN_IF_ERROR(addProducts(plan, shapes).withContext(path));
  }
  if (shapes.empty())
    return invalidArgument("the plans have no products for a GPU");
  QWEN_ASSIGN_OR_RETURN(cuda::Blas * blas, sharedBlas());
  cudaDeviceProp card;
  QWEN_RETURN_IF_ERROR(
      cudaStatus(cudaGetDeviceProperties(&card, 0), "device 0"));
  QWEN_ASSIGN_OR_RETURN(ProductMemory memory, ProductMemory::create(shapes));
  std::string header = fmt::format(
      "# Algorithms of matrix products, made by qwen-bench tune.\n# {}, "
      "cuBLASLt {}.\n# Product: {} = TFLOP/s of it and of the library's first "
      "choice.\n",
      card.name, blas->version(), fmt::join(gemmAlgorithmFields, " "));
  QWEN_ASSIGN_OR_RETURN(std::set<GemmAlgorithm> proposed,
                        proposedAlgorithms(*blas, memory, shapes));
  cuda::TuningTable table;
  if (!options.keep.empty()) {
    QWEN_ASSIGN_OR_RETURN(table, readTable(options.keep));
  }
  for (const GemmShape &shape : shapes) {
    QWEN_ASSIGN_OR_RETURN(TunedProduct tuned,
                          tuneProduct(*blas, memory, shape, proposed));
    print(shape, tuned);
    table.insert_or_assign(shape, tuned.best);
    QWEN_RETURN_IF_ERROR(writeTable(table, options.output, header));
  }
  return okStatus();
}

Action bench::addTuneCommand(CLI::App &command) {
  auto options = std::make_shared<TuneOptions>();
  command
      .add_option("plans", options->plans,
                  "Plans whose products are tuned; they may be cut to a few "
                  "layers and for another target")
      ->required()
      ->check(CLI::ExistingFile);
  command
      .add_option("--keep", options->keep,
                  "Table whose lines for other products are kept")
      ->check(CLI::ExistingFile);
  command.add_option("-o,--output", options->output, "Table to write")
      ->required();
  return [options] { return runTune(*options); };
}
