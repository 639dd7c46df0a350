//===- Tune.cpp - A tuning table of matrix products -----------------------===//
//
// The products of plans, each with the algorithm that is fastest on this card
// under a sustained load, as a table for qwenc.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "TuneStep.h"

#include "runtime/plan/Plan.h"
#include "runtime/plan/PlanSteps.h"
#include "runtime/support/Print.h"
#include "runtime/support/Publish.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <tuple>

#include <fmt/ranges.h>

using namespace qwen;
using namespace qwen::bench;
using cuda::GemmShape;

namespace {

struct TuneOptions {
  std::vector<std::string> plans;
  std::string keep; ///< a table whose other products are kept
  std::string from; ///< a table whose algorithms are the candidates
  std::string output;
  TuneSearch search;
};

/// The products of plans.
struct PlanProducts {
  std::set<GemmShape> shapes;
  /// Those of the program with the most work, as it runs them.
  std::vector<GemmShape> longest;
};

/// The products that a kernel runs, as it runs them.
template <typename Args>
void addProducts(const Args &args, std::vector<GemmShape> &products) {
  if constexpr (std::is_same_v<Args, GemmArgs>) {
    products.push_back(cuda::tunedShape(cuda::gemmShape(args)));
  } else if constexpr (cuda::usesBlas<Args>) {
    cuda::LossBlocks blocks(args.x, args.weight);
    for (int64_t row = 0; row < blocks.tokens; row += blocks.rows) {
      products.push_back(blocks.logits());
      if constexpr (std::is_same_v<Args, LinearCrossEntropyGradArgs>) {
        products.push_back(blocks.dx());
        products.push_back(cuda::tunedShape(blocks.dweight(args.accumulate)));
      }
    }
  }
}

double flops(const std::vector<GemmShape> &products) {
  double sum = 0;
  for (const GemmShape &shape : products)
    sum += shape.flops();
  return sum;
}

} // namespace

static Status addProducts(const Plan &plan, PlanProducts &products) {
  const plan::Plan &raw = plan.raw();
  auto resolve = [&](uint32_t id, BufferType &type) {
    type = toBufferType(*raw.types()->Get(raw.views()->Get(id)->type()));
    return okStatus();
  };
  for (const plan::Program *program : *raw.programs()) {
    std::vector<GemmShape> found;
    for (const plan::Step *step : *program->steps())
      QWEN_RETURN_IF_ERROR(visitStep(*step, resolve, [&](auto &args) {
        if (cuda::unsupportedReason(args).empty())
          addProducts(args, found);
        return okStatus();
      }));
    products.shapes.insert(found.begin(), found.end());
    if (flops(found) > flops(products.longest))
      products.longest = std::move(found);
  }
  return okStatus();
}

/// Writes the whole table: what is done is not lost when the rest fails.
static Status writeTable(const cuda::TuningTable &table,
                         const std::string &path, const std::string &header) {
  return publishFile(path, header + cuda::formatTuningTable(table));
}

static StatusOr<cuda::TuningTable> readTable(const std::string &path) {
  std::ifstream file(path);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file)
    return makeError(StatusCode::IoError, "cannot read {}", path);
  return cuda::parseTuningTable(text, path);
}

/// Energies of a launch, one number a stretch.
static std::vector<double> joulesOf(const SustainedAlgorithm &algorithm) {
  std::vector<double> joules;
  for (size_t i = 0; i < algorithm.ms.size(); ++i)
    joules.push_back(algorithm.watts[i] * algorithm.ms[i] * 1e-3);
  return joules;
}

static void print(const GemmShape &shape, const TunedProduct &tuned) {
  for (const SustainedAlgorithm &each : tuned.sustained)
    qwen::print(stdout,
                "{{\"bench\": \"tune_candidate\", \"product\": \"{}\", "
                "\"algorithm\": [{}], \"burst_ms\": {:.4f}, \"ms\": [{:.4f}], "
                "\"joules\": [{:.4f}], \"watts\": [{:.1f}], \"sm_mhz\": {}}}\n",
                toString(shape), fmt::join(each.algorithm, ", "), each.burstMs,
                fmt::join(each.ms, ", "), fmt::join(joulesOf(each), ", "),
                fmt::join(each.watts, ", "), each.megahertz);
  qwen::print(
      stdout,
      "{{\"bench\": \"tune\", \"product\": \"{}\", \"algorithm\": [{}], "
      "\"first\": [{}], \"tflops\": {:.1f}, \"first_tflops\": {:.1f}, "
      "\"timed\": {}, \"refused\": {}}}\n",
      toString(shape), fmt::join(tuned.best.algorithm, ", "),
      fmt::join(tuned.first, ", "), tuned.best.tflops, tuned.best.firstTflops,
      tuned.timed, tuned.refused);
  std::fflush(stdout);
}

/// The algorithms that a table has for products of the same form.
static std::set<GemmAlgorithm> algorithmsOf(const cuda::TuningTable &table,
                                            const GemmShape &shape) {
  std::set<GemmAlgorithm> found;
  for (const auto &[other, tuned] : table) {
    GemmShape form = other;
    std::tie(form.m, form.n, form.k) = std::tie(shape.m, shape.n, shape.k);
    if (form == shape && !tuned.algorithm.empty())
      found.insert(tuned.algorithm);
  }
  return found;
}

static StatusOr<std::string> header(const cuda::Blas &blas,
                                    const TuneSearch &search) {
  cudaDeviceProp card;
  QWEN_RETURN_IF_ERROR(
      cudaStatus(cudaGetDeviceProperties(&card, 0), "device 0"));
  return fmt::format(
      "# Algorithms of matrix products, made by qwen-bench tune.\n# {}, "
      "cuBLASLt {}; products of normal random numbers, each algorithm twice "
      "for "
      "{:.0f} ms\n# at the card's power limit, times of the last halves.\n"
      "# Product: {} = TFLOP/s of it and of the library's first choice.\n",
      card.name, blas.version(), search.stretchMs,
      fmt::join(gemmAlgorithmFields, " "));
}

static Status runTune(const TuneOptions &options) {
  // The search takes minutes before there is something to write.
  std::filesystem::path folder =
      std::filesystem::path(options.output).parent_path();
  QWEN_RETURN_IF_ERROR(
      ensureWritableDirectory(folder.empty() ? "." : folder.string()));
  PlanProducts products;
  for (const std::string &path : options.plans) {
    QWEN_ASSIGN_OR_RETURN(Plan plan, Plan::load(path));
    QWEN_RETURN_IF_ERROR(addProducts(plan, products).withContext(path));
  }
  if (products.shapes.empty())
    return invalidArgument("the plans have no products for a GPU");
  QWEN_ASSIGN_OR_RETURN(cuda::Blas * blas, sharedBlas());
  QWEN_ASSIGN_OR_RETURN(SteadyLoad load, SteadyLoad::create());
  QWEN_ASSIGN_OR_RETURN(ProductMemory memory,
                        ProductMemory::create(products.shapes));
  QWEN_ASSIGN_OR_RETURN(std::string comment, header(*blas, options.search));
  QWEN_ASSIGN_OR_RETURN(
      cuda::TuningTable shipped,
      cuda::parseTuningTable(cuda::shippedTuningTable(), "the built-in table"));
  cuda::TuningTable table, from;
  TuneSearch search = options.search;
  search.heatMs = 1000;
  if (!options.keep.empty()) {
    QWEN_ASSIGN_OR_RETURN(table, readTable(options.keep));
  }
  if (options.from.empty()) {
    QWEN_ASSIGN_OR_RETURN(search.algorithms,
                          proposedAlgorithms(*blas, memory, products.shapes));
  } else {
    QWEN_ASSIGN_OR_RETURN(from, readTable(options.from));
    search.neighbours = false;
  }
  for (const GemmShape &shape : products.shapes) {
    if (!options.from.empty())
      search.algorithms = algorithmsOf(from, shape);
    auto known = shipped.find(shape);
    search.keep =
        known == shipped.end() ? GemmAlgorithm() : known->second.algorithm;
    QWEN_ASSIGN_OR_RETURN(TunedProduct tuned,
                          tuneProduct(*blas, memory, load, shape, search));
    print(shape, tuned);
    table.insert_or_assign(shape, tuned.best);
    QWEN_RETURN_IF_ERROR(writeTable(table, options.output, comment));
    search.heatMs = options.search.heatMs;
  }
  return compareTables(*blas, memory, load, products.longest,
                       {{"first choices", {}},
                        {"the built-in table", shipped},
                        {"the new table", table}});
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
  command
      .add_option(
          "--from", options->from,
          "Table whose algorithms are the candidates, and the library's "
          "proposals for the very product: a shorter search")
      ->check(CLI::ExistingFile);
  addNumber(command, "--candidates", options->search.candidates,
            OptionRange::whole(1, 1000),
            "How many bursts leave for the sustained load, besides the "
            "library's first choice");
  addNumber(command, "--stretch", options->search.stretchMs,
            {.least = 1, .most = 1e6},
            "Milliseconds of a candidate's load, which runs twice");
  command.add_option("-o,--output", options->output, "Table to write")
      ->required();
  return [options] { return runTune(*options); };
}
