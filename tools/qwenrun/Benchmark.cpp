//===- Benchmark.cpp - Timing of optimizer steps --------------------------===//

#include "Session.h"

#include "runtime/benchmark/StepBenchmark.h"

#include <algorithm>
#include <numeric>

using namespace qwen;

/// Documents of the lengths of --documents, which share a pack.
static StatusOr<TokenDataset> openFixedPack(const Options &options,
                                            const PlanInfo &info) {
  int64_t tokens = std::accumulate(options.documents.begin(),
                                   options.documents.end(), int64_t(0));
  auto documents = static_cast<int64_t>(options.documents.size());
  if (tokens > info.tokens || documents > info.maxDocuments)
    return invalidArgument("--documents has {} tokens in {} documents, a pack "
                           "of this plan holds {} in {}",
                           tokens, documents, info.tokens, info.maxDocuments);
  return bench::randomDocuments(options.documents, info.vocabSize,
                                options.trainer.seed);
}

StatusOr<TokenDataset> qwen::openBenchmarkData(const Session &session,
                                               const Plan &plan) {
  const Options &options = session.options;
  if (!options.data.empty())
    return openDataset(session, options.data, plan);
  const PlanInfo &info = plan.info();
  if (!options.documents.empty())
    return agreed(session, openFixedPack(options, info));
  // Documents that fill packs well.
  constexpr int64_t packs = 8;
  int64_t perPack = std::clamp<int64_t>(info.maxDocuments, 1, 4);
  int64_t length = std::max<int64_t>(info.tokens / perPack, 1);
  return bench::randomDocuments(
      std::vector<int64_t>(size_t(packs * perPack), length), info.vocabSize,
      options.trainer.seed);
}

Status qwen::benchmark(Session &session, const Plan &plan) {
  const Options &options = session.options;
  bench::StepBenchmarkOptions measuring;
  measuring.started = session.started;
  QWEN_ASSIGN_OR_RETURN(TokenDataset data, openBenchmarkData(session, plan));
  if (!options.weights.empty())
    QWEN_RETURN_IF_ERROR(openSource(session, options.weights));
  QWEN_RETURN_IF_ERROR(openEngine(session, plan));
  QWEN_RETURN_IF_ERROR(loadWeights(session));
  measuring.steps = options.benchmark;
  measuring.trainer = options.trainer;
  measuring.peakTflops = options.run.peakTflops;
  measuring.log = session.log;
  QWEN_ASSIGN_OR_RETURN(
      bench::StepMeasurement measured,
      bench::measureSteps(*session.engine, plan, data, measuring));
  if (session.isFirst())
    print(stdout, "{{{}}}\n", bench::jsonFields(measured));
  return okStatus();
}
