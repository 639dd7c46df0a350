//===- Benchmark.cpp - Timing of optimizer steps --------------------------===//

#include "Session.h"

#include "qwen/Support/Random.h"

#include <chrono>
#include <filesystem>
#include <fmt/ranges.h>
#include <unistd.h>

using namespace qwen;

/// Steps before the timed ones: pages are touched, caches and threads warm.
static constexpr int64_t warmupSteps = 2;

/// Random documents that fill packs well, as a token file.
static Status writeSyntheticData(const std::string &path, const PlanInfo &info,
                                 uint32_t seed) {
  constexpr int64_t packs = 8;
  int64_t perPack = std::clamp<int64_t>(info.maxDocuments, 1, 4);
  int64_t length = std::max<int64_t>(info.tokens / perPack, 1);
  std::vector<int32_t> tokens;
  std::vector<uint8_t> mask;
  std::vector<int64_t> offsets = {0};
  for (int64_t document = 0; document < packs * perPack; ++document) {
    for (int64_t i = 0; i < length; ++i) {
      auto bits = randomBits(seed, RandomUse::Shuffle, 0, uint32_t(document),
                             uint64_t(i));
      tokens.push_back(int32_t(bits[0] % uint64_t(info.vocabSize)));
      mask.push_back(i > 0);
    }
    offsets.push_back(int64_t(tokens.size()));
  }
  std::vector<TensorSpec> specs = {
      {"document_offsets", FileDType::I64, {int64_t(offsets.size())}},
      {"tokens", FileDType::I32, {int64_t(tokens.size())}},
      {"loss_mask", FileDType::U8, {int64_t(mask.size())}}};
  QWEN_ASSIGN_OR_RETURN(
      SafetensorsWriter writer,
      SafetensorsWriter::create(path, specs, {{"format", "qwen-tokens-1"}}));
  QWEN_RETURN_IF_ERROR(writer.write(std::as_bytes(std::span(offsets))));
  QWEN_RETURN_IF_ERROR(writer.write(std::as_bytes(std::span(tokens))));
  QWEN_RETURN_IF_ERROR(writer.write(std::as_bytes(std::span(mask))));
  return writer.close();
}

StatusOr<TokenDataset> qwen::openBenchmarkData(const Session &session,
                                               const Plan &plan) {
  const Options &options = session.options;
  if (!options.data.empty())
    return openDataset(session, options.data, plan);
  std::error_code error;
  std::string path =
      (std::filesystem::temp_directory_path(error) /
       fmt::format("qwenrun-benchmark-{}.safetensors", ::getpid()))
          .string();
  Status written = writeSyntheticData(path, plan.info(), options.trainer.seed);
  StatusOr<TokenDataset> data =
      written.ok() ? openDataset(session, path, plan) : written;
  // The mapping stays; the name is not needed any more.
  ::unlink(path.c_str());
  return data;
}

Status qwen::benchmark(Session &session, const Plan &plan) {
  Options &options = session.options;
  QWEN_ASSIGN_OR_RETURN(TokenDataset data, openBenchmarkData(session, plan));
  if (!options.weights.empty()) {
    QWEN_ASSIGN_OR_RETURN(session.source, Checkpoint::open(options.weights));
  }
  QWEN_RETURN_IF_ERROR(openEngine(session, plan));
  QWEN_RETURN_IF_ERROR(loadWeights(session));
  options.trainer.steps = warmupSteps + options.benchmark;
  QWEN_ASSIGN_OR_RETURN(
      Trainer trainer, Trainer::create(*session.engine, data, options.trainer));
  std::vector<double> milliseconds;
  int64_t tokens = 0;
  double flops = 0;
  for (int64_t i = 0; i < options.trainer.steps; ++i) {
    using namespace std::chrono;
    StepResult result;
    auto start = steady_clock::now();
    QWEN_RETURN_IF_ERROR(trainer.step(result));
    duration<double, std::milli> taken = steady_clock::now() - start;
    if (result.kind != StepResult::Kind::Updated)
      return makeError(StatusCode::FailedPrecondition,
                       "step {} was skipped: {}", i + 1,
                       result.kind == StepResult::Kind::Empty
                           ? "it has no supervised token"
                           : "its loss or gradient is not finite");
    fmt::print(session.log, "step {}: {:.2f} ms, loss {:.4f}\n", i + 1,
               taken.count(), result.loss);
    if (i < warmupSteps)
      continue;
    milliseconds.push_back(taken.count());
    tokens += result.tokens;
    flops += session.engine->trainingFlops(double(result.tokens),
                                           result.contextPairs);
  }
  fmt::print("{{\"step_ms\": [{:.4f}], \"tokens\": {}, \"model_flops\": {}, "
             "\"pack_tokens\": {}, \"accumulation\": {}}}\n",
             fmt::join(milliseconds, ", "), tokens, flops, plan.info().tokens,
             options.trainer.accumulation);
  return okStatus();
}
