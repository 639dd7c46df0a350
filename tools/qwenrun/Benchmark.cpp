//===- Benchmark.cpp - Timing of optimizer steps --------------------------===//

#include "Session.h"

#include "runtime/benchmark/StepBenchmark.h"

#include <algorithm>

using namespace qwen;

/// A step whose packs all hold documents of the lengths of --documents.
static StatusOr<TokenDataset> openFixedPacks(const Session &session,
                                             const PlanInfo &info) {
  const Options &options = session.options;
  int64_t packs = options.trainer.packsOfStep(session.ranks->size());
  StatusOr<TokenDataset> data =
      bench::packsOfStep(options.documents, info, packs, options.trainer.seed);
  QWEN_RETURN_IF_ERROR(data.status().withContext("--documents"));
  return data;
}

StatusOr<TokenDataset> qwen::openBenchmarkData(const Session &session,
                                               const Plan &plan) {
  const Options &options = session.options;
  if (!options.data.empty())
    return openDataset(session, options.data, plan);
  const PlanInfo &info = plan.info();
  if (!options.documents.empty())
    return agreed(session, openFixedPacks(session, info));
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
