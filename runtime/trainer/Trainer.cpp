//===- Trainer.cpp - Optimizer steps and evaluation -----------------------===//

#include "runtime/trainer/Trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace qwen;

template <typename T>
static void copyInto(const Buffer &buffer, const T *values, size_t count) {
  std::memcpy(buffer.data, values, count * sizeof(T));
}

void qwen::setInputs(const Batch &batch, const EngineInputs &inputs) {
  copyInto(inputs.tokens, batch.tokens.data(), batch.tokens.size());
  copyInto(inputs.labels, batch.labels.data(), batch.labels.size());
  copyInto(inputs.positions, batch.positions.data(), batch.positions.size());
  copyInto(inputs.cuSeqlens, batch.cuSeqlens.data(), batch.cuSeqlens.size());
}

double qwen::sumLosses(std::span<const int32_t> labels, const Buffer &nll) {
  double sum = 0;
  for (size_t t = 0; t < labels.size(); ++t)
    if (labels[t] != ignoredLabel)
      sum += double(nll.as<float>()[t]);
  return sum;
}

Status qwen::checkMicroBatches(DType gradient, const TrainerOptions &options,
                               int64_t ranks) {
  int64_t packs = options.packsOfStep(ranks);
  if (gradient != DType::BF16 || packs <= ranks)
    return okStatus();
  return makeError(StatusCode::FailedPrecondition,
                   "the plan's gradients are bf16 and take {} micro-batches a "
                   "step, one on each rank, but the step has {}",
                   ranks, packs);
}

StatusOr<Trainer> Trainer::create(Engine &engine, const TokenDataset &data,
                                  const TrainerOptions &options) {
  Trainer trainer(engine, data, options);
  PackLimits limits = engine.limits();
  int64_t ranks = engine.ranks().size();
  for (const ParameterRole &role : engine.roles())
    if (role.gradient.data)
      QWEN_RETURN_IF_ERROR(
          checkMicroBatches(role.gradient.dtype, options, ranks));
  trainer.position.identity = {data.contentHash(), options.seed, limits.tokens,
                               limits.documents, options.packsOfStep(ranks)};
  int64_t packsPerStep = trainer.packsPerStep();
  trainer.total = options.steps;
  if (options.steps <= 0) {
    // Epochs differ by a pack or so, so that their sum has to be counted.
    for (int64_t epoch = 0; epoch < options.epochs; ++epoch) {
      QWEN_ASSIGN_OR_RETURN(
          EpochPacking packing,
          EpochPacking::create(data, limits, options.seed, uint32_t(epoch)));
      trainer.total += (packing.packs() + packsPerStep - 1) / packsPerStep;
    }
  }
  QWEN_RETURN_IF_ERROR(trainer.loadEpoch());
  trainer.last.packsOfEpoch = trainer.packing->packs();
  return trainer;
}

Status Trainer::loadEpoch() {
  if (packedEpoch == cursor.epoch)
    return okStatus();
  QWEN_ASSIGN_OR_RETURN(packing, EpochPacking::create(*data, engine->limits(),
                                                      options.seed,
                                                      uint32_t(cursor.epoch)));
  packedEpoch = cursor.epoch;
  return okStatus();
}

Status Trainer::restore(const TrainerState &saved) {
  QWEN_RETURN_IF_ERROR(checkSameRun(saved.identity, position.identity));
  if (saved.epoch > std::numeric_limits<uint32_t>::max())
    return dataLoss("trainer state: epoch {} is out of range", saved.epoch);
  position = saved;
  cursor = {saved.step, saved.epoch, saved.pack};
  QWEN_RETURN_IF_ERROR(loadEpoch());
  last.packsOfEpoch = packing->packs();
  if (saved.pack >= packing->packs())
    return dataLoss("trainer state: pack {} of epoch {}, which has {}",
                    saved.pack, saved.epoch, packing->packs());
  return okStatus();
}

/// Chooses a round's packs, those from number `begin` of the epoch on, one a
/// rank, and counts what is in them.
void Trainer::choosePacks(PendingStep &step, int64_t begin) {
  StepResult &result = step.result;
  int64_t end = std::min<int64_t>(begin + engine->ranks().size(),
                                  cursor.pack + result.packs);
  int64_t own = emptyPack, microBatches = result.microBatches;
  for (int64_t pack = begin; pack < end; ++pack) {
    auto documents = packing->pack(pack);
    int64_t supervised = countSupervised(*data, documents);
    if (supervised == 0)
      continue;
    result.supervised += supervised;
    ++result.microBatches;
    double pairs = 0;
    for (uint32_t document : documents) {
      int64_t length = data->length(document);
      result.tokens += length;
      pairs += double(length) * double(length + 1) / 2;
    }
    result.contextPairs += pairs;
    if (pack - begin == engine->ranks().rank())
      own = pack;
  }
  if (result.microBatches == microBatches)
    return;
  step.packs.push_back(own);
  ++result.rounds;
}

/// Chooses the packs of the step at the cursor and moves the cursor behind it.
Trainer::PendingStep Trainer::nextStep() {
  PendingStep step;
  StepResult &result = step.result;
  step.begin = cursor;
  step.packsOfEpoch = packing->packs();
  result.learningRate = options.schedule.rate(cursor.step, total);
  result.packs = std::min(packsPerStep(), packing->packs() - cursor.pack);
  for (int64_t i = 0; i < result.packs; i += engine->ranks().size())
    choosePacks(step, cursor.pack + i);
  ++cursor.step;
  cursor.pack += result.packs;
  // A checkpoint at the end of an epoch stands at the start of the next one.
  if (cursor.pack == packing->packs()) {
    cursor.pack = 0;
    ++cursor.epoch;
  }
  step.end = cursor;
  return step;
}

Status Trainer::start() {
  assert(pending.size() < 2 && "finish a step first");
  if (cursor.step >= total)
    return okStatus();
  // The update of the step before comes before these micro-batches.
  QWEN_RETURN_IF_ERROR(startUpdate());
  QWEN_RETURN_IF_ERROR(loadEpoch());
  pending.push_back(nextStep());
  PendingStep &step = pending.back();
  engine->ranks().enterStep(step.end.step);
  if (step.result.supervised > 0)
    return startMicroBatches(step);
  step.result.kind = StepResult::Kind::Empty;
  return okStatus();
}

/// Starts a program once what its output will replace has been read.
StatusOr<EngineRun> Trainer::startRun(EngineRun::Program program) {
  int64_t replaced = nextRun - engine->keptRuns();
  for (PendingStep &step : pending) {
    QWEN_RETURN_IF_ERROR(readLosses(step, replaced));
    if (step.update && step.update->number <= replaced)
      QWEN_RETURN_IF_ERROR(readStats(step));
  }
  QWEN_ASSIGN_OR_RETURN(EngineRun run, engine->start(program));
  nextRun = run.number + 1;
  return run;
}

/// Fills `batch`.
Status Trainer::fillPack(const EpochPacking &packs, int64_t pack) {
  std::span<const uint32_t> documents;
  if (pack != emptyPack)
    documents = packs.pack(pack);
  return fillBatch(*data, documents, engine->limits(), batch);
}

EngineRun::Program Trainer::microStepAt(int64_t index) {
  return index == 0 ? EngineRun::Program::FirstMicroStep
                    : EngineRun::Program::MicroStep;
}

Status Trainer::startMicroBatches(PendingStep &step) {
  const EngineInputs &inputs = engine->inputs();
  *inputs.lossScale.as<float>() =
      static_cast<float>(1.0 / double(step.result.supervised));
  for (size_t i = 0; i < step.packs.size(); ++i) {
    QWEN_RETURN_IF_ERROR(fillPack(*packing, step.packs[i]));
    setInputs(batch, inputs);
    QWEN_ASSIGN_OR_RETURN(EngineRun run, startRun(microStepAt(int64_t(i))));
    step.unread.push_back({run, batch.labels});
  }
  return okStatus();
}

/// Starts the update of the oldest pending step where it has one and it is not
/// started: all steps before are finished.
Status Trainer::startUpdate() {
  if (pending.empty() || pending.front().update ||
      pending.front().packs.empty())
    return okStatus();
  PendingStep &step = pending.front();
  const EngineInputs &inputs = engine->inputs();
  std::array<float, 8> hyper =
      makeHyper(options.adamw, step.result.learningRate, position.updates + 1);
  copyInto(inputs.hyper, hyper.data(), hyper.size());
  int32_t rng[2] = {static_cast<int32_t>(options.seed),
                    static_cast<int32_t>(step.begin.step)};
  copyInto(inputs.rng, rng, 2);
  QWEN_ASSIGN_OR_RETURN(step.update, startRun(EngineRun::Program::Update));
  return okStatus();
}

/// Reads the losses of the step's runs up to a number.
Status Trainer::readLosses(PendingStep &step, int64_t upTo) {
  while (!step.unread.empty() && step.unread.front().run.number <= upTo) {
    const MicroBatch &micro = step.unread.front();
    QWEN_ASSIGN_OR_RETURN(Buffer nll, engine->finish(micro.run));
    step.lossSum += sumLosses(micro.labels, nll);
    step.unread.pop_front();
  }
  return okStatus();
}

Status Trainer::readStats(PendingStep &step) {
  if (step.stats)
    return okStatus();
  QWEN_ASSIGN_OR_RETURN(Buffer stats, engine->finish(*step.update));
  step.stats.emplace();
  std::copy_n(stats.as<float>(), step.stats->size(), step.stats->data());
  return okStatus();
}

/// Takes a step that has ended into the state.
Status Trainer::countStep(PendingStep &step) {
  StepResult &result = step.result;
  if (result.kind == StepResult::Kind::Empty) {
    ++position.emptySteps;
  } else {
    result.loss = step.lossSum / double(result.supervised);
    result.gradNorm = double((*step.stats)[0]);
    bool updated = (*step.stats)[2] != 0;
    if (updated && !std::isfinite(result.loss))
      return makeError(StatusCode::Internal,
                       "the loss of step {} is not finite but the norm of its "
                       "gradient is: the update was not withheld",
                       step.end.step);
    if (updated) {
      ++position.updates;
      position.nonFiniteInARow = 0;
    } else {
      result.kind = StepResult::Kind::NonFinite;
      ++position.nonFiniteSteps;
      ++position.nonFiniteInARow;
    }
    position.emptyMicroBatches += result.packs - result.microBatches;
    position.tokens += result.tokens;
    position.supervisedTokens += result.supervised;
  }
  position.step = step.end.step;
  position.epoch = step.end.epoch;
  position.pack = step.end.pack;
  return okStatus();
}

Status Trainer::finish(StepResult &result) {
  assert(!pending.empty() && "start a step first");
  QWEN_RETURN_IF_ERROR(startUpdate());
  PendingStep &step = pending.front();
  QWEN_RETURN_IF_ERROR(readLosses(step, nextRun));
  if (step.update) {
    QWEN_RETURN_IF_ERROR(readStats(step));
    QWEN_ASSIGN_OR_RETURN(step.lossSum, engine->ranks().sum(step.lossSum));
  }
  QWEN_RETURN_IF_ERROR(countStep(step));
  result = step.result;
  last = std::move(step);
  pending.pop_front();
  return okStatus();
}

Status Trainer::step(StepResult &result) {
  assert(pending.empty() && "another step is started");
  QWEN_RETURN_IF_ERROR(start());
  return finish(result);
}

Status Trainer::cancel() {
  if (pending.empty())
    return okStatus();
  assert(pending.size() == 1 && !pending.front().update &&
         "an update cannot be taken back");
  pending.clear();
  cursor = {position.step, position.epoch, position.pack};
  return loadEpoch();
}

namespace {
/// Evaluations that were started, oldest first.
struct PendingEvaluation {
  EngineRun run;
  std::vector<int32_t> labels;
};
} // namespace

StatusOr<EvalResult>
qwen::evaluate(Engine &engine, const TokenDataset &data,
               const std::function<bool()> &stopRequested) {
  PackLimits limits = engine.limits();
  QWEN_ASSIGN_OR_RETURN(EpochPacking packing,
                        EpochPacking::createInOrder(data, limits));
  EvalResult result;
  Batch batch;
  double sum = 0;
  std::deque<PendingEvaluation> pending;
  auto readOldest = [&]() -> Status {
    QWEN_ASSIGN_OR_RETURN(Buffer nll, engine.finish(pending.front().run));
    sum += sumLosses(pending.front().labels, nll);
    pending.pop_front();
    return okStatus();
  };
  // Two are enough for one to run while the other one's losses are read, and a
  // stop does not wait for more.
  size_t most = engine.runsAhead() ? 2 : 1;
  Communicator &ranks = engine.ranks();
  // A pack a rank; those without one run an empty one.
  for (int64_t begin = 0; begin < packing.packs(); begin += ranks.size()) {
    QWEN_ASSIGN_OR_RETURN(result.stopped,
                          ranks.any(stopRequested && stopRequested()));
    if (result.stopped)
      return result;
    std::span<const uint32_t> own;
    int64_t supervised = 0;
    for (int64_t r = 0; r < ranks.size() && begin + r < packing.packs(); ++r) {
      auto documents = packing.pack(begin + r);
      int64_t labels = countSupervised(data, documents);
      supervised += labels;
      if (r == ranks.rank() && labels > 0)
        own = documents;
    }
    if (supervised == 0)
      continue;
    QWEN_RETURN_IF_ERROR(fillBatch(data, own, limits, batch));
    setInputs(batch, engine.inputs());
    QWEN_ASSIGN_OR_RETURN(EngineRun run,
                          engine.start(EngineRun::Program::Evaluation));
    pending.push_back({run, batch.labels});
    result.supervised += supervised;
    if (pending.size() >= most)
      QWEN_RETURN_IF_ERROR(readOldest());
  }
  while (!pending.empty())
    QWEN_RETURN_IF_ERROR(readOldest());
  if (result.supervised == 0)
    return invalidArgument("'{}' has no supervised token to evaluate on",
                           data.path());
  QWEN_ASSIGN_OR_RETURN(sum, ranks.sum(sum));
  result.loss = sum / double(result.supervised);
  return result;
}
