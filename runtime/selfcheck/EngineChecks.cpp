//===- EngineChecks.cpp - A whole model against itself --------------------===//

#include "runtime/selfcheck/EngineChecks.h"

#include "runtime/selfcheck/CheckBatch.h"
#include "runtime/selfcheck/StateBits.h"
#include "runtime/trainer/Trainer.h"

#include <cmath>
#include <cstring>

using namespace qwen;

namespace {

using Losses = std::vector<float>;
using Program = EngineRun::Program;

constexpr const char *equalBits = "equal bits";

CheckRow bitsRow(std::string check, std::string what,
                 const std::string &difference) {
  return checkRow(std::move(check), std::move(what), equalBits,
                  difference.empty() ? equalBits : difference,
                  difference.empty());
}

Losses lossesOf(const Buffer &nll) {
  const float *values = nll.as<float>();
  return {values, values + nll.elements()};
}

/// Runs a program on a batch.
StatusOr<Losses> runOn(Engine &engine, Program program, const Batch &batch) {
  setInputs(batch, engine.inputs());
  *engine.inputs().lossScale.as<float>() =
      1.0f / float(std::max<int64_t>(batch.supervised, 1));
  QWEN_ASSIGN_OR_RETURN(EngineRun run, engine.start(program));
  QWEN_ASSIGN_OR_RETURN(Buffer nll, engine.finish(run));
  return lossesOf(nll);
}

bool sameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

/// The part of a document in a pack.
std::span<const float> partOf(const Losses &losses, const Batch &pack,
                              size_t document) {
  auto begin = size_t(pack.cuSeqlens[document]);
  auto end = size_t(pack.cuSeqlens[document + 1]);
  return std::span(losses).subspan(begin, end - begin);
}

/// Names the first token that differs, or what is not finite; empty where all
/// is well.
std::string lossDifference(std::span<const float> found,
                           std::span<const float> expected) {
  for (size_t i = 0; i < found.size(); ++i) {
    if (!std::isfinite(found[i]))
      return fmt::format("token {}: {}", i, found[i]);
    if (!sameBits(found.subspan(i, 1), expected.subspan(i, 1)))
      return fmt::format("token {}: {} and {}", i, found[i], expected[i]);
  }
  return "";
}

std::string textOf(const std::vector<CheckDocument> &documents) {
  std::string text;
  for (const CheckDocument &document : documents)
    text += fmt::format("{}{}", text.empty() ? "" : " ", document.size());
  return text;
}

std::vector<CheckDocument> documentsOf(std::span<const int64_t> lengths,
                                       std::mt19937 &random,
                                       int64_t vocabulary) {
  std::vector<CheckDocument> documents;
  for (int64_t length : lengths)
    documents.push_back(randomDocument(random, length, vocabulary));
  return documents;
}

/// Every token becomes another one.
void changeTokens(CheckDocument &document, int64_t vocabulary) {
  for (int32_t &token : document)
    token = int32_t((token + 1) % vocabulary);
}

} // namespace

//===----------------------------------------------------------------------===//
// Isolation
//===----------------------------------------------------------------------===//

/// Each document alone against its part of the pack.
static StatusOr<std::string>
compareAlone(Engine &engine, const std::vector<CheckDocument> &documents,
             const Batch &pack, const Losses &packed) {
  for (size_t i = 0; i < documents.size(); ++i) {
    Batch single =
        makeBatch(std::span(documents).subspan(i, 1), engine.limits());
    QWEN_ASSIGN_OR_RETURN(Losses alone,
                          runOn(engine, Program::Evaluation, single));
    std::string difference =
        lossDifference(partOf(packed, pack, i), partOf(alone, single, 0));
    if (!difference.empty())
      return fmt::format("document {}, {}", i, difference);
  }
  return std::string();
}

/// Other tokens in every second document, which moves none of the others.
static StatusOr<std::string>
compareNeighbours(Engine &engine, std::vector<CheckDocument> documents,
                  const Batch &pack, const Losses &packed) {
  for (size_t i = 0; i < documents.size(); i += 2)
    changeTokens(documents[i], engine.vocabSize());
  QWEN_ASSIGN_OR_RETURN(Losses changed,
                        runOn(engine, Program::Evaluation,
                              makeBatch(documents, engine.limits())));
  for (size_t i = 0; i < documents.size(); ++i) {
    auto before = partOf(packed, pack, i), after = partOf(changed, pack, i);
    if (i % 2 == 0 && documents[i].size() > 1 && sameBits(before, after))
      return fmt::format("document {} does not depend on its own tokens", i);
    if (i % 2 == 0)
      continue;
    if (std::string difference = lossDifference(after, before);
        !difference.empty())
      return fmt::format("document {}, {}", i, difference);
  }
  return std::string();
}

StatusOr<std::vector<CheckRow>> qwen::checkIsolation(Engine &engine,
                                                     uint32_t seed) {
  constexpr const char *check = "document isolation";
  std::mt19937 random(seed);
  std::vector<int64_t> lengths = raggedLengths(engine.limits());
  if (lengths.size() < 2)
    return std::vector{
        skippedRow(check, "a pack of this plan holds one document")};
  auto documents = documentsOf(lengths, random, engine.vocabSize());
  Batch pack = makeBatch(documents, engine.limits());
  QWEN_ASSIGN_OR_RETURN(Losses packed,
                        runOn(engine, Program::Evaluation, pack));
  QWEN_ASSIGN_OR_RETURN(std::string alone,
                        compareAlone(engine, documents, pack, packed));
  QWEN_ASSIGN_OR_RETURN(std::string neighbours,
                        compareNeighbours(engine, documents, pack, packed));
  return std::vector{
      bitsRow(check,
              fmt::format("losses of 'eval', documents of {} tokens: each "
                          "alone and packed",
                          textOf(documents)),
              alone),
      bitsRow(check, "the same pack with other tokens in every second document",
              neighbours)};
}

//===----------------------------------------------------------------------===//
// Replay
//===----------------------------------------------------------------------===//

namespace {
/// The first micro-step and the same batch once more.
struct MicroStepBits {
  Losses first, second;
  StateBits gradients;
};

struct Packing {
  const char *name;
  std::vector<int64_t> lengths;
};
} // namespace

/// One document; many of one token and one long; three equal ones; the first
/// again.
static std::vector<Packing> packingsFor(PackLimits limits) {
  int64_t ones = std::max<int64_t>(
      0, std::min<int64_t>({64, limits.documents - 1, limits.tokens / 2}));
  std::vector<int64_t> many(size_t(ones), 1);
  many.push_back(limits.tokens - ones);
  int64_t equal = std::min<int64_t>({3, limits.documents, limits.tokens});
  std::vector<int64_t> few(size_t(equal), limits.tokens / equal);
  return {{"one document", {limits.tokens}},
          {"many of one token and a long one", many},
          {"equal ones", few},
          {"one document again", {limits.tokens}}};
}

template <typename Run>
static StatusOr<MicroStepBits> microStepBits(Engine &engine, Run &&run) {
  MicroStepBits bits;
  QWEN_ASSIGN_OR_RETURN(bits.first, run(Program::FirstMicroStep));
  QWEN_ASSIGN_OR_RETURN(bits.second, run(Program::MicroStep));
  QWEN_ASSIGN_OR_RETURN(bits.gradients, gradientBits(engine));
  return bits;
}

StatusOr<std::vector<CheckRow>>
qwen::checkReplay(Engine &engine, const PlainMicroStep &plain, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<CheckRow> rows;
  for (const Packing &packing : packingsFor(engine.limits())) {
    Batch batch =
        makeBatch(documentsOf(packing.lengths, random, engine.vocabSize()),
                  engine.limits());
    auto replay = [&](Program program) {
      return runOn(engine, program, batch);
    };
    QWEN_ASSIGN_OR_RETURN(MicroStepBits graph, microStepBits(engine, replay));
    // The inputs stay as they are.
    auto single = [&](Program program) -> StatusOr<Losses> {
      QWEN_ASSIGN_OR_RETURN(Buffer nll, plain(program));
      return lossesOf(nll);
    };
    QWEN_ASSIGN_OR_RETURN(MicroStepBits launches,
                          microStepBits(engine, single));
    std::string difference = lossDifference(graph.first, launches.first);
    if (difference.empty())
      difference = lossDifference(graph.second, launches.second);
    if (difference.empty())
      difference = graph.gradients.firstDifference(launches.gradients);
    rows.push_back(bitsRow(
        "graph replay",
        fmt::format("replay and plain launches, {} ({} document{}): losses, {} "
                    "of gradients",
                    packing.name, packing.lengths.size(),
                    packing.lengths.size() == 1 ? "" : "s",
                    graph.gradients.describe()),
        difference));
  }
  return rows;
}

//===----------------------------------------------------------------------===//
// Repeatability
//===----------------------------------------------------------------------===//

namespace {
struct StepBits {
  Losses losses;
  std::vector<float> stats;
  StateBits gradients, state;
};
} // namespace

static StatusOr<StepBits> runStep(Engine &engine, const Batch &batch) {
  StepBits bits;
  QWEN_ASSIGN_OR_RETURN(bits.losses,
                        runOn(engine, Program::FirstMicroStep, batch));
  QWEN_ASSIGN_OR_RETURN(bits.gradients, gradientBits(engine));
  std::array<float, 8> hyper = makeHyper(AdamWOptions(), 1e-3, 1);
  const EngineInputs &inputs = engine.inputs();
  std::memcpy(inputs.hyper.data, hyper.data(), sizeof(hyper));
  inputs.rng.as<int32_t>()[0] = 1;
  inputs.rng.as<int32_t>()[1] = 0;
  QWEN_ASSIGN_OR_RETURN(EngineRun run, engine.start(Program::Update));
  QWEN_ASSIGN_OR_RETURN(Buffer stats, engine.finish(run));
  bits.stats = lossesOf(stats);
  QWEN_ASSIGN_OR_RETURN(bits.state, parameterBits(engine));
  return bits;
}

StatusOr<std::vector<CheckRow>> qwen::checkRepeatability(Engine &engine,
                                                         uint32_t seed) {
  constexpr const char *check = "run to run";
  auto saved = SavedParameters::save(engine);
  if (!saved.ok() && saved.status().code() == StatusCode::ResourceExhausted)
    return std::vector{skippedRow(check, saved.status().message())};
  if (!saved.ok())
    return saved.status();
  std::mt19937 random(seed);
  Batch batch = makeBatch(
      documentsOf(raggedLengths(engine.limits()), random, engine.vocabSize()),
      engine.limits());
  QWEN_RETURN_IF_ERROR(saved->restore(engine));
  QWEN_ASSIGN_OR_RETURN(StateBits before, parameterBits(engine));
  QWEN_ASSIGN_OR_RETURN(StepBits first, runStep(engine, batch));
  QWEN_RETURN_IF_ERROR(saved->restore(engine));
  QWEN_ASSIGN_OR_RETURN(StepBits second, runStep(engine, batch));
  QWEN_RETURN_IF_ERROR(saved->restore(engine));
  std::string micro = lossDifference(first.losses, second.losses);
  if (micro.empty())
    micro = first.gradients.firstDifference(second.gradients);
  std::string update = sameBits(first.stats, second.stats)
                           ? first.state.firstDifference(second.state)
                           : "the norm of the gradients";
  if (update.empty() && first.state.firstDifference(before).empty())
    update = "the update changed nothing";
  return std::vector{
      bitsRow(check,
              fmt::format("micro-step twice from one state: losses, {} of "
                          "gradients",
                          first.gradients.describe()),
              micro),
      bitsRow(check,
              fmt::format("update twice: norm, {} of parameters, masters and "
                          "moments",
                          first.state.describe()),
              update)};
}
