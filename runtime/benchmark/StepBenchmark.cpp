//===- StepBenchmark.cpp - Times of training steps ------------------------===//

#include "runtime/benchmark/StepBenchmark.h"

#include "qwen/Support/Random.h"
#include "runtime/benchmark/Documents.h"
#include "runtime/data/Packing.h"
#include "runtime/support/Print.h"

#include <algorithm>
#include <filesystem>
#include <fmt/ranges.h>
#include <numeric>
#include <unistd.h>

using namespace qwen;
using namespace qwen::bench;
using Clock = std::chrono::steady_clock;

double StepMeasurement::seconds() const {
  double sum = 0;
  for (double each : milliseconds)
    sum += each;
  return sum * 1e-3;
}

double StepMeasurement::medianMilliseconds() const {
  std::vector<double> sorted = milliseconds;
  std::sort(sorted.begin(), sorted.end());
  return sorted.empty() ? 0 : sorted[sorted.size() / 2];
}

namespace {
/// Steps one after the other, each started before the one before it is read.
class StepLoop {
public:
  StepLoop(PlanEngine &engine, Trainer &trainer,
           const StepBenchmarkOptions &options)
      : engine(engine), trainer(trainer), options(options) {}

  Status run(StepMeasurement &measured) {
    QWEN_RETURN_IF_ERROR(trainer.start());
    for (int64_t i = 0; i < options.warmUp + options.steps; ++i) {
      QWEN_RETURN_IF_ERROR(trainer.start());
      StepResult result;
      QWEN_RETURN_IF_ERROR(trainer.finish(result));
      QWEN_RETURN_IF_ERROR(record(i, result, measured));
    }
    return okStatus();
  }

private:
  Status record(int64_t step, const StepResult &result,
                StepMeasurement &measured) {
    Clock::time_point now = Clock::now();
    std::chrono::duration<double, std::milli> taken = now - before;
    before = now;
    if (result.kind != StepResult::Kind::Updated)
      return makeError(StatusCode::FailedPrecondition,
                       "step {} was skipped: {}", step + 1,
                       result.kind == StepResult::Kind::Empty
                           ? "it has no supervised token"
                           : "its loss or gradient is not finite");
    print(options.log, "step {}: {:.2f} ms, loss {:.4f}\n", step + 1,
          taken.count(), result.loss);
    if (step == 0) {
      std::chrono::duration<double> sinceStart = now - options.started;
      measured.firstStepSeconds = sinceStart.count();
      measured.firstLoss = result.loss;
    }
    if (step < options.warmUp)
      return okStatus();
    measured.milliseconds.push_back(taken.count());
    measured.lastLoss = result.loss;
    measured.tokens += result.tokens;
    measured.modelFlops +=
        engine.trainingFlops(double(result.tokens), result.contextPairs);
    double ranks = engine.ranks().size();
    measured.hardwareFlops +=
        ranks *
        engine.launchedFlops(result.rounds, result.contextPairs / ranks);
    return okStatus();
  }

  PlanEngine &engine;
  Trainer &trainer;
  const StepBenchmarkOptions &options;
  Clock::time_point before = Clock::now();
};
} // namespace

StatusOr<StepMeasurement>
bench::measureSteps(PlanEngine &engine, const Plan &plan,
                    const TokenDataset &data,
                    const StepBenchmarkOptions &options) {
  TrainerOptions trainerOptions = options.trainer;
  // One more than is read: the last one that counts overlaps its successor's
  // start as all others do.
  trainerOptions.steps = options.warmUp + options.steps + 1;
  QWEN_ASSIGN_OR_RETURN(Trainer trainer,
                        Trainer::create(engine, data, trainerOptions));
  StepMeasurement measured;
  StepLoop loop(engine, trainer, options);
  QWEN_RETURN_IF_ERROR(loop.run(measured));
  measured.peakTflops = options.peakTflops * engine.ranks().size();
  measured.ranks = engine.ranks().size();
  measured.packTokens = plan.info().tokens;
  measured.accumulation = trainerOptions.accumulation;
  Executor &device = engine.device();
  auto count = [&](const char *program, int64_t runs) {
    LaunchCounts counts = device.launchCounts(*plan.findProgram(program));
    measured.launches.kernels += runs * counts.kernels;
    measured.launches.driverCalls += runs * counts.driverCalls;
  };
  count("first_micro_step", 1);
  count("micro_step", measured.accumulation - 1);
  count("update", 1);
  measured.memory = device.memoryReport();
  measured.forecastBytes = plan.info().forecast.total();
  return measured;
}

std::string bench::jsonFields(const StepMeasurement &measured) {
  auto [least, most] = std::minmax_element(measured.milliseconds.begin(),
                                           measured.milliseconds.end());
  double seconds = measured.seconds();
  std::string text = fmt::format(
      "\"median_ms\": {:.4f}, \"min_ms\": {:.4f}, \"max_ms\": {:.4f}, "
      "\"step_ms\": [{:.4f}], \"tokens\": {}, \"tokens_per_s\": {:.1f}, "
      "\"ranks\": {}, \"pack_tokens\": {}, \"accumulation\": {}, "
      "\"model_flops\": {}, "
      "\"hardware_flops\": {}, \"first_step_s\": {:.3f}, \"first_loss\": {}, "
      "\"last_loss\": {}, \"gpu_kernels\": {}, \"driver_calls\": {}, "
      "\"plan_bytes\": {}, \"before_bytes\": {}, \"library_bytes\": {}, "
      "\"forecast_bytes\": {}",
      measured.medianMilliseconds(), *least, *most,
      fmt::join(measured.milliseconds, ", "), measured.tokens,
      double(measured.tokens) / seconds, measured.ranks, measured.packTokens,
      measured.accumulation, measured.modelFlops, measured.hardwareFlops,
      measured.firstStepSeconds, measured.firstLoss, measured.lastLoss,
      measured.launches.kernels, measured.launches.driverCalls,
      measured.memory.plan, measured.memory.before, measured.memory.libraries,
      measured.forecastBytes);
  if (measured.peakTflops > 0)
    text += fmt::format(
        ", \"peak_tflops\": {}, \"mfu\": {:.4f}, \"hfu\": {:.4f}",
        measured.peakTflops,
        measured.modelFlops / seconds / measured.peakTflops * 1e-12,
        measured.hardwareFlops / seconds / measured.peakTflops * 1e-12);
  return text;
}

static Status writeDocuments(const std::string &path,
                             const std::vector<int64_t> &lengths,
                             int64_t vocabSize, uint32_t seed) {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> mask;
  std::vector<int64_t> offsets = {0};
  for (int64_t length : lengths) {
    for (int64_t i = 0; i < length; ++i) {
      auto bits = randomBits(seed, RandomUse::Shuffle, 0,
                             uint32_t(offsets.size()), uint64_t(i));
      tokens.push_back(int32_t(bits[0] % uint64_t(vocabSize)));
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

StatusOr<TokenDataset>
bench::randomDocuments(const std::vector<int64_t> &lengths, int64_t vocabSize,
                       uint32_t seed) {
  std::error_code error;
  std::string path = (std::filesystem::temp_directory_path(error) /
                      fmt::format("qwen-benchmark-{}.safetensors", ::getpid()))
                         .string();
  Status written = writeDocuments(path, lengths, vocabSize, seed);
  StatusOr<TokenDataset> data = written.ok()
                                    ? TokenDataset::open(path, vocabSize)
                                    : StatusOr<TokenDataset>(written);
  // The mapping stays; the name is not needed any more.
  ::unlink(path.c_str());
  return data;
}

StatusOr<TokenDataset> bench::packsOfStep(const std::vector<int64_t> &lengths,
                                          const PlanInfo &info, int64_t packs,
                                          uint32_t seed) {
  int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t(0));
  auto documents = int64_t(lengths.size());
  if (tokens > info.tokens || documents > info.maxDocuments)
    return invalidArgument("the documents of a pack have {} tokens in {} "
                           "documents, a pack of this plan holds {} in {}",
                           tokens, documents, info.tokens, info.maxDocuments);
  std::vector<int64_t> all;
  for (int64_t i = 0; i < packs; ++i)
    all.insert(all.end(), lengths.begin(), lengths.end());
  QWEN_ASSIGN_OR_RETURN(TokenDataset data,
                        randomDocuments(all, info.vocabSize, seed));
  QWEN_ASSIGN_OR_RETURN(
      EpochPacking packing,
      EpochPacking::create(data, {info.tokens, info.maxDocuments}, seed, 0));
  auto holdsAll = [&](int64_t pack) {
    return int64_t(packing.pack(pack).size()) == documents;
  };
  bool alike = packing.packs() == packs;
  for (int64_t pack = 0; alike && pack < packs; ++pack)
    alike = holdsAll(pack);
  if (!alike)
    return invalidArgument(
        "documents of {} tokens, {} times, are not packed as so many packs "
        "that hold each once; lengths of which each is more than half of what "
        "the longer ones leave of a pack are, such as {}",
        fmt::join(lengths, ","), packs, fmt::join(sevenHalving, ","));
  return data;
}
