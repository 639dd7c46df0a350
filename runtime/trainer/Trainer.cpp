//===- Trainer.cpp - Optimizer steps and evaluation -----------------------===//

#include "runtime/trainer/Trainer.h"

#include "runtime/checkpoint/Cast.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace qwen;

template <typename T>
static void copyInto(const Buffer &buffer, const T *values, size_t count) {
  std::memcpy(buffer.data, values, count * sizeof(T));
}

void qwen::setInputs(const Batch &batch, const EngineBuffers &buffers) {
  copyInto(buffers.tokens, batch.tokens.data(), batch.tokens.size());
  copyInto(buffers.labels, batch.labels.data(), batch.labels.size());
  copyInto(buffers.positions, batch.positions.data(), batch.positions.size());
  copyInto(buffers.cuSeqlens, batch.cuSeqlens.data(), batch.cuSeqlens.size());
}

double qwen::sumLosses(const Batch &batch, const Buffer &nll) {
  double sum = 0;
  for (size_t t = 0; t < batch.labels.size(); ++t)
    if (batch.labels[t] != ignoredLabel)
      sum += double(nll.as<float>()[t]);
  return sum;
}

void qwen::discardGradients(Engine &engine) {
  for (const ParameterRole &role : engine.roles())
    if (role.gradient.data)
      std::memset(role.gradient.data, 0, size_t(role.gradient.bytes()));
}

StatusOr<Trainer> Trainer::create(Engine &engine, const TokenDataset &data,
                                  const TrainerOptions &options) {
  Trainer trainer(engine, data, options);
  PackLimits limits = engine.limits();
  trainer.position.identity = {data.contentHash(), options.seed, limits.tokens,
                               limits.documents, options.accumulation};
  trainer.total = options.steps;
  if (options.steps <= 0) {
    // Epochs differ by a pack or so, so that their sum has to be counted.
    for (int64_t epoch = 0; epoch < options.epochs; ++epoch) {
      QWEN_ASSIGN_OR_RETURN(
          EpochPacking packing,
          EpochPacking::create(data, limits, options.seed, uint32_t(epoch)));
      trainer.total +=
          (packing.packs() + options.accumulation - 1) / options.accumulation;
    }
  }
  QWEN_RETURN_IF_ERROR(trainer.loadEpoch());
  return trainer;
}

Status Trainer::loadEpoch() {
  if (packedEpoch == position.epoch)
    return okStatus();
  QWEN_ASSIGN_OR_RETURN(
      packing, EpochPacking::create(*data, engine->limits(), options.seed,
                                    uint32_t(position.epoch)));
  packedEpoch = position.epoch;
  return okStatus();
}

Status Trainer::restore(const TrainerState &saved) {
  QWEN_RETURN_IF_ERROR(checkSameRun(saved.identity, position.identity));
  if (saved.epoch > std::numeric_limits<uint32_t>::max())
    return dataLoss("trainer state: epoch {} is out of range", saved.epoch);
  position = saved;
  QWEN_RETURN_IF_ERROR(loadEpoch());
  if (saved.pack >= packing->packs())
    return dataLoss("trainer state: pack {} of epoch {}, which has {}",
                    saved.pack, saved.epoch, packing->packs());
  return okStatus();
}

void Trainer::advance(int64_t packs) {
  ++position.step;
  position.pack += packs;
  // A checkpoint at the end of an epoch stands at the start of the next one.
  if (position.pack == packing->packs()) {
    position.pack = 0;
    ++position.epoch;
  }
}

/// Runs the given packs; returns the sum of their losses.
double Trainer::runMicroBatches(std::span<const int64_t> packs, float lossScale,
                                StepResult &result) {
  const EngineBuffers &buffers = engine->buffers();
  *buffers.lossScale.as<float>() = lossScale;
  double sum = 0;
  for (int64_t pack : packs) {
    fillBatch(*data, packing->pack(pack), engine->limits(), batch);
    setInputs(batch, buffers);
    engine->microStep();
    sum += sumLosses(batch, buffers.microNll);
    result.tokens += batch.used;
    result.contextPairs += batch.contextPairs;
  }
  return sum;
}

void Trainer::update(StepResult &result) {
  const EngineBuffers &buffers = engine->buffers();
  std::array<float, 8> hyper =
      makeHyper(options.adamw, result.learningRate, position.updates + 1);
  copyInto(buffers.hyper, hyper.data(), hyper.size());
  int32_t rng[2] = {static_cast<int32_t>(options.seed),
                    static_cast<int32_t>(position.step)};
  copyInto(buffers.rng, rng, 2);
  engine->update();
  const float *stats = buffers.stats.as<float>();
  result.gradNorm = double(stats[0]);
  if (stats[2] == 0)
    result.kind = StepResult::Kind::NonFinite;
}

Status Trainer::step(StepResult &result) {
  result = StepResult();
  QWEN_RETURN_IF_ERROR(loadEpoch());
  result.learningRate = options.schedule.rate(position.step, total);
  result.packs =
      std::min(options.accumulation, packing->packs() - position.pack);
  lastPacks.clear();
  lastEpoch = position.epoch;
  for (int64_t i = 0; i < result.packs; ++i) {
    int64_t pack = position.pack + i;
    int64_t supervised = countSupervised(*data, packing->pack(pack));
    result.supervised += supervised;
    if (supervised > 0)
      lastPacks.push_back(pack);
  }
  lastSupervised = result.supervised;
  if (result.supervised == 0) {
    result.kind = StepResult::Kind::Empty;
    ++position.emptySteps;
    advance(result.packs);
    return okStatus();
  }
  position.emptyMicroBatches += result.packs - int64_t(lastPacks.size());
  auto scale = static_cast<float>(1.0 / double(result.supervised));
  double sum = runMicroBatches(lastPacks, scale, result);
  result.loss = sum / double(result.supervised);
  if (std::isfinite(result.loss)) {
    update(result);
  } else {
    result.kind = StepResult::Kind::NonFinite;
    result.gradNorm = std::numeric_limits<double>::quiet_NaN();
    discardGradients(*engine);
  }
  if (result.kind == StepResult::Kind::Updated) {
    ++position.updates;
    position.nonFiniteInARow = 0;
  } else {
    ++position.nonFiniteSteps;
    ++position.nonFiniteInARow;
  }
  position.tokens += result.tokens;
  position.supervisedTokens += result.supervised;
  advance(result.packs);
  return okStatus();
}

std::string Trainer::explainNonFinite() {
  auto lastPacking = EpochPacking::create(*data, engine->limits(), options.seed,
                                          uint32_t(lastEpoch));
  if (!lastPacking.ok())
    return lastPacking.status().message();
  const EngineBuffers &buffers = engine->buffers();
  *buffers.lossScale.as<float>() =
      static_cast<float>(1.0 / double(std::max<int64_t>(lastSupervised, 1)));
  std::string found = "nothing found when the step was run again";
  for (int64_t pack : lastPacks) {
    auto documents = lastPacking->pack(pack);
    fillBatch(*data, documents, engine->limits(), batch);
    setInputs(batch, buffers);
    engine->microStep();
    if (int64_t at = firstNonFinite(buffers.microNll);
        at >= 0 && at < batch.used) {
      auto slot = std::upper_bound(batch.cuSeqlens.begin() + 1,
                                   batch.cuSeqlens.end(), int32_t(at)) -
                  batch.cuSeqlens.begin() - 1;
      found = fmt::format("loss of token {} of document {}",
                          at - batch.cuSeqlens[size_t(slot)],
                          documents[size_t(slot)]);
      break;
    }
    auto roles = engine->roles();
    auto parameters = engine->parameters();
    size_t i = 0;
    while (i < roles.size() &&
           (!roles[i].gradient.data || firstNonFinite(roles[i].gradient) < 0))
      ++i;
    if (i < roles.size()) {
      found = fmt::format("gradient of '{}'", parameters[i].name);
      break;
    }
  }
  discardGradients(*engine);
  return found;
}

StatusOr<EvalResult>
qwen::evaluate(Engine &engine, const TokenDataset &data,
               const std::function<bool()> &stopRequested) {
  PackLimits limits = engine.limits();
  QWEN_ASSIGN_OR_RETURN(EpochPacking packing,
                        EpochPacking::createInOrder(data, limits));
  const EngineBuffers &buffers = engine.buffers();
  EvalResult result;
  Batch batch;
  double sum = 0;
  for (int64_t pack = 0; pack < packing.packs(); ++pack) {
    if (stopRequested && stopRequested()) {
      result.stopped = true;
      return result;
    }
    fillBatch(data, packing.pack(pack), limits, batch);
    if (batch.supervised == 0)
      continue;
    setInputs(batch, buffers);
    engine.evaluate();
    sum += sumLosses(batch, buffers.evalNll);
    result.supervised += batch.supervised;
  }
  if (result.supervised == 0)
    return invalidArgument("'{}' has no supervised token to evaluate on",
                           data.path());
  result.loss = sum / double(result.supervised);
  return result;
}
