//===- OneLawTest.cpp - One training law, however it is computed ----------===//
//
// The same documents give the same losses, gradients and updates under every
// packing, order, split into micro-batches, pack size, recompute policy, with
// and without fusion, and for every number of threads. Losses of a document are
// always the same bits. Gradients are where only memory and scheduling differ;
// where the order of a sum over tokens differs they are within its rounding.
//
//===----------------------------------------------------------------------===//

#include "Model.h"
#include "SmoothUpdates.h"

#include "qwen/Support/Tolerance.h"

#include <algorithm>
#include <numeric>

using namespace qwen;
using namespace qwen::e2e;

namespace {

/// Which documents, by index, are in which micro-batch.
using Split = std::vector<std::vector<size_t>>;

/// What a step over all documents gives, before its update.
struct Outcome {
  std::vector<std::vector<float>> nll; ///< by document
  Tensors gradients;
};

class OneLawTest : public testing::TestWithParam<PlanSpec> {
protected:
  void SetUp() override { generator.seed(77); }

  /// Documents of 1 to 129 tokens, 430 to 500 in all, some of them without any
  /// label.
  std::vector<TestDocument> drawDocuments(int32_t vocabulary) {
    constexpr int64_t special[] = {1, 2, 3, 4, 5, 63, 64, 65, 127, 128, 129};
    std::vector<TestDocument> documents;
    int64_t room = 500;
    while (room > 70 && documents.size() < 14) {
      int64_t length = draw(generator, 2) ? special[size_t(draw(generator, 11))]
                                          : 1 + draw(generator, 100);
      length = std::min(length, room);
      int percent = draw(generator, 4) ? 80 : 0;
      documents.push_back(
          randomDocument(generator, length, vocabulary, percent));
      room -= length;
    }
    return documents;
  }

  std::vector<size_t> shuffled(size_t count) {
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), size_t(0));
    for (size_t i = count; i > 1; --i)
      std::swap(order[i - 1], order[size_t(draw(generator, int32_t(i)))]);
    return order;
  }

  Generator generator;
};

} // namespace

/// All documents in that order, cut into `packs` micro-batches of about as many
/// documents, and more where they do not fit.
static Split cut(const std::vector<TestDocument> &documents,
                 const std::vector<size_t> &order, size_t packs,
                 PackLimits limits) {
  Split split(1);
  int64_t used = 0;
  size_t next = 1;
  for (size_t i = 0; i < order.size(); ++i) {
    int64_t length = documents[order[i]].length();
    bool border = i == next * order.size() / packs;
    next += border;
    if (border || used + length > limits.tokens) {
      split.emplace_back();
      used = 0;
    }
    split.back().push_back(order[i]);
    used += length;
  }
  return split;
}

static Outcome runStep(Model &model, const std::vector<TestDocument> &documents,
                       const Split &split) {
  auto scale = static_cast<float>(1.0 / double(countSupervised(documents)));
  Outcome outcome;
  outcome.nll.resize(documents.size());
  model.beginStep();
  for (const std::vector<size_t> &members : split) {
    std::vector<TestDocument> chosen;
    for (size_t member : members)
      chosen.push_back(documents[member]);
    Batch pack = makePack(chosen, model.limits());
    std::vector<float> nll = model.microStep(pack, scale);
    for (size_t i = 0; i < members.size(); ++i)
      outcome.nll[members[i]] = sliceOf(nll, pack, i);
  }
  outcome.gradients = model.gradients();
  return outcome;
}

/// Bound of the distance of two gradients that sum the same contributions of
/// the tokens in another order: two sums, each within its tolerance of the
/// exact one, relative to what the documents contribute one by one.
static Bounds gradientBounds(Model &model,
                             const std::vector<TestDocument> &documents) {
  auto scale = static_cast<float>(1.0 / double(countSupervised(documents)));
  Bounds bounds;
  int64_t tokens = 0;
  for (const TestDocument &document : documents) {
    model.beginStep();
    model.microStep(makePack(std::span(&document, 1), model.limits()), scale);
    for (const auto &[name, values] : model.gradients())
      bounds[name] += norm(values);
    tokens += document.length();
  }
  for (auto &[name, bound] : bounds)
    bound *= 2 * sumTolerance(DType::F32, double(tokens));
  return bounds;
}

static void expectSameLosses(const Outcome &a, const Outcome &b) {
  ASSERT_EQ(a.nll.size(), b.nll.size());
  for (size_t i = 0; i < a.nll.size(); ++i)
    EXPECT_TRUE(sameBits(a.nll[i], b.nll[i])) << "losses of document " << i;
}

static void expectCloseGradients(const Outcome &a, const Outcome &b,
                                 const Bounds &bounds) {
  for (const auto &[name, values] : a.gradients)
    EXPECT_LE(distance(values, b.gradients.at(name)), bounds.at(name)) << name;
}

/// Expects the weights after one update from gradients that are `bounds` apart
/// to be as close as the update's slope makes them.
static void expectCloseUpdates(const Tensors &a, const Tensors &b,
                               const Tensors &gradients, const Bounds &bounds,
                               const SmoothAdamW &adamw) {
  for (const auto &[name, bound] : updateBounds(a, gradients, bounds, adamw))
    EXPECT_LE(distance(a.at(name), b.at(name)), bound) << name;
}

TEST_P(OneLawTest, PackingsOrdersAndMicroBatches) {
  SmoothAdamW adamw;
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(fmt::format("round {}", round));
    ASSERT_OK_AND_TAKE(model, goldenModel(GetParam()));
    std::vector<TestDocument> documents = drawDocuments(model.vocabulary());
    auto bounds = gradientBounds(model, documents);
    std::vector<size_t> order = shuffled(documents.size());
    Split whole = cut(documents, order, 1, model.limits());
    ASSERT_EQ(whole.size(), 1u);
    Outcome reference = runStep(model, documents, whole);
    EXPECT_TRUE(allFinite(reference.gradients));
    model.update(adamw.hyper(1), 0);
    Tensors updated = model.weights();

    for (size_t packs : {1, 2, 4}) {
      SCOPED_TRACE(fmt::format("{} packs", packs));
      ASSERT_OK_AND_TAKE(other, goldenModel(GetParam()));
      Split split =
          cut(documents, shuffled(documents.size()), packs, other.limits());
      ASSERT_EQ(split.size(), packs);
      Outcome outcome = runStep(other, documents, split);
      expectSameLosses(reference, outcome);
      expectCloseGradients(reference, outcome, bounds);
      other.update(adamw.hyper(1), 0);
      expectCloseUpdates(updated, other.weights(), reference.gradients, bounds,
                         adamw);
    }
  }
}

// A matrix product that accumulates goes on where the last one ended, so that a
// split in the same order is the same sum.
TEST_P(OneLawTest, SplitInTheSameOrderKeepsMatrixGradients) {
  if (testOptions().isCuda())
    GTEST_SKIP() << "the products of cuBLASLt add a whole sum to the last one";
  ASSERT_OK_AND_TAKE(model, goldenModel(GetParam()));
  std::vector<TestDocument> documents = drawDocuments(model.vocabulary());
  std::vector<size_t> order = shuffled(documents.size());
  Outcome whole =
      runStep(model, documents, cut(documents, order, 1, model.limits()));
  for (size_t packs : {2, 3}) {
    Outcome parts =
        runStep(model, documents, cut(documents, order, packs, model.limits()));
    for (const std::string &name : model.matrices()) {
      // A tied embedding has two sums that alternate.
      if (GetParam().config == "tiny-tied-1to1" &&
          name.ends_with("embed_tokens.weight"))
        continue;
      EXPECT_TRUE(sameBits(whole.gradients.at(name), parts.gradients.at(name)))
          << name << ", " << packs << " packs";
    }
  }
}

static std::vector<PlanSpec> withOtherPackSizes(PlanSpec spec) {
  // 129 tokens: the longest document alone fills it.
  std::vector<PlanSpec> specs;
  for (auto [tokens, slots] : {std::pair(129, 40), std::pair(333, 3)}) {
    spec.tokens = tokens;
    spec.maxDocuments = slots;
    specs.push_back(spec);
  }
  return specs;
}

TEST_P(OneLawTest, PackSizes) {
  ASSERT_OK_AND_TAKE(model, goldenModel(GetParam()));
  std::vector<TestDocument> documents = drawDocuments(model.vocabulary());
  auto bounds = gradientBounds(model, documents);
  std::vector<size_t> order = shuffled(documents.size());
  Outcome reference =
      runStep(model, documents, cut(documents, order, 1, model.limits()));
  for (const PlanSpec &spec : withOtherPackSizes(GetParam())) {
    SCOPED_TRACE(fmt::format("{} tokens", spec.tokens));
    ASSERT_OK_AND_TAKE(other, goldenModel(spec));
    auto slots = size_t(spec.maxDocuments);
    size_t least = (documents.size() + slots - 1) / slots;
    Outcome outcome =
        runStep(other, documents, cut(documents, order, least, other.limits()));
    expectSameLosses(reference, outcome);
    expectCloseGradients(reference, outcome, bounds);
  }
}

/// Two steps of two micro-batches; everything that outlives them.
static void runTwoSteps(Model &model,
                        const std::vector<TestDocument> &documents,
                        std::vector<Outcome> &outcomes, Tensors &state) {
  SmoothAdamW adamw;
  std::vector<size_t> order(documents.size());
  std::iota(order.begin(), order.end(), size_t(0));
  for (int step = 0; step < 2; ++step) {
    outcomes.push_back(
        runStep(model, documents, cut(documents, order, 2, model.limits())));
    model.update(adamw.hyper(step + 1), step);
  }
  state = model.state();
}

TEST_P(OneLawTest, RecomputationFusionAndThreadsKeepEveryBit) {
  std::vector<Outcome> reference;
  Tensors referenceState;
  ASSERT_OK_AND_TAKE(model, goldenModel(GetParam(), 2));
  std::vector<TestDocument> documents = drawDocuments(model.vocabulary());
  runTwoSteps(model, documents, reference, referenceState);

  struct Variant {
    std::string recompute;
    bool fuse;
    int threads;
  };
  const Variant variants[] = {
      {"none", true, 2},  {"none", true, 1}, {"none", true, 3},
      {"cheap", true, 2}, {"full", true, 3}, {"none", false, 2},
      {"full", false, 1},
  };
  for (const Variant &variant : variants) {
    // A residual sum in the epilogue of a GPU's product is rounded once, and
    // twice where it is a kernel of its own.
    if (testOptions().isCuda() && !variant.fuse)
      continue;
    SCOPED_TRACE(fmt::format("recompute {}, fusion {}, {} threads",
                             variant.recompute, variant.fuse, variant.threads));
    PlanSpec spec = GetParam();
    spec.recompute = variant.recompute;
    spec.fuse = variant.fuse;
    ASSERT_OK_AND_TAKE(other, goldenModel(spec, variant.threads));
    std::vector<Outcome> outcomes;
    Tensors state;
    runTwoSteps(other, documents, outcomes, state);
    for (size_t step = 0; step < reference.size(); ++step) {
      expectSameLosses(reference[step], outcomes[step]);
      EXPECT_TRUE(sameBits(reference[step].gradients, outcomes[step].gradients))
          << "step " << step;
    }
    EXPECT_TRUE(sameBits(referenceState, state));
  }
}

/// Launches of a micro-step and bytes of activations.
static std::pair<int64_t, int64_t> costOf(const PlanSpec &spec) {
  auto plan = compilePlan(spec);
  EXPECT_TRUE(plan.ok());
  if (!plan.ok())
    return {};
  auto program = plan->findProgram("micro_step");
  EXPECT_TRUE(program);
  return {program ? plan->programs()[size_t(*program)].launches : 0,
          plan->info().forecast.activations};
}

// The variants that must agree are not the same plan.
TEST_P(OneLawTest, VariantsDiffer) {
  PlanSpec spec = GetParam();
  auto [launches, bytes] = costOf(spec);
  spec.recompute = "cheap";
  auto [cheapLaunches, cheapBytes] = costOf(spec);
  spec.recompute = "full";
  auto [fullLaunches, fullBytes] = costOf(spec);
  EXPECT_LT(launches, cheapLaunches);
  EXPECT_LT(cheapLaunches, fullLaunches);
  EXPECT_GT(bytes, cheapBytes);
  EXPECT_GT(cheapBytes, fullBytes);
  spec = GetParam();
  spec.fuse = false;
  EXPECT_LT(launches, costOf(spec).first);
}

static PlanSpec specOf(const std::string &config, const std::string &dtype) {
  PlanSpec spec;
  spec.config = config;
  spec.target = testOptions().target;
  spec.dtype = dtype;
  spec.tokens = 512;
  spec.maxDocuments = 16;
  return spec;
}

/// The CUDA kernels have other head sizes than the smallest models, and bf16.
static std::vector<PlanSpec> specs() {
  if (testOptions().isCuda())
    return {specOf("tiny-hopper-tied", "bf16"),
            specOf("tiny-hopper-untied", "bf16")};
  return {specOf("tiny-tied-1to1", "f32"), specOf("tiny-untied-1to3", "bf16")};
}

INSTANTIATE_TEST_SUITE_P(Models, OneLawTest, testing::ValuesIn(specs()),
                         [](const auto &info) {
                           return testName(info.param.config);
                         });

int main(int argc, char **argv) {
  return runTests(argc, argv, [] {
    std::vector<PlanSpec> all;
    for (const PlanSpec &spec : specs()) {
      for (const char *recompute : {"none", "cheap", "full"})
        for (bool fuse : {true, false}) {
          PlanSpec variant = spec;
          variant.recompute = recompute;
          variant.fuse = fuse;
          all.push_back(variant);
        }
      for (const PlanSpec &other : withOtherPackSizes(spec))
        all.push_back(other);
    }
    return all;
  });
}
