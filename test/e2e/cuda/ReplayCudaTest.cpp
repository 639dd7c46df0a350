//===- ReplayCudaTest.cpp - One graph for every pack ----------------------===//
//
// A program is captured once; packs with other documents, other learning rates
// and other step numbers replay the same graph. Every bit must be that of plain
// launches: losses, gradients, the update's stats, weights and moments.
//
//===----------------------------------------------------------------------===//

#include "test/e2e/Model.h"

#include "runtime/trainer/Schedule.h"

using namespace qwen;
using namespace qwen::e2e;

namespace {

constexpr int64_t packTokens = 8192;

/// What a run leaves, in the order in which it came.
struct Trace {
  std::vector<std::vector<float>> outputs; ///< losses and stats
  std::vector<Tensors> gradients;
  Tensors state;
};

class ReplayCudaTest : public testing::TestWithParam<std::string> {};

} // namespace

static PlanSpec specOf(const std::string &config) {
  PlanSpec spec;
  spec.config = config;
  spec.target = testOptions().target;
  spec.dtype = "bf16";
  spec.tokens = packTokens;
  spec.maxDocuments = 65;
  return spec;
}

static std::vector<std::string> configs() {
  return {"tiny-hopper-tied", "tiny-hopper-untied"};
}

/// One document; as many as the plan has room for, all of one token but the
/// last; three equal ones with padding behind them; the first pack again.
static std::vector<std::vector<int64_t>> packLengths() {
  std::vector<int64_t> many(64, 1);
  many.push_back(packTokens - 64);
  std::vector<int64_t> three(3, packTokens / 3);
  return {{packTokens}, many, three, {packTokens}};
}

static Batch makePackOf(const std::vector<int64_t> &lengths,
                        const Model &model) {
  // The first pack and the last are the same.
  Generator generator(uint32_t(lengths.size()));
  std::vector<TestDocument> documents;
  for (int64_t length : lengths)
    documents.push_back(
        randomDocument(generator, length, model.vocabulary(), 90));
  return makePack(documents, model.limits());
}

/// A micro-step and an update for each pack.
static Trace trace(Model &model) {
  Trace result;
  AdamWOptions adamw;
  int step = 0;
  for (const std::vector<int64_t> &lengths : packLengths()) {
    Batch pack = makePackOf(lengths, model);
    auto scale = static_cast<float>(1.0 / double(pack.supervised));
    std::vector<float> nll = model.microStep(pack, scale);
    // Padding belongs to no document and has no loss to speak of.
    nll.resize(size_t(pack.used));
    result.outputs.push_back(std::move(nll));
    result.gradients.push_back(model.gradients());
    ++step;
    auto stats = model.update(makeHyper(adamw, 1e-3 * step, step), step);
    result.outputs.emplace_back(stats.begin(), stats.end());
  }
  result.state = model.state();
  return result;
}

static StatusOr<Model> makeModel(const std::string &config,
                                 const ExecutorOptions &options) {
  QWEN_ASSIGN_OR_RETURN(Plan plan, compilePlan(specOf(config)));
  QWEN_ASSIGN_OR_RETURN(Model model, Model::create(plan, options));
  QWEN_RETURN_IF_ERROR(setGoldenWeights(model, config));
  return model;
}

static void expectSame(const Trace &a, const Trace &b) {
  ASSERT_EQ(a.outputs.size(), b.outputs.size());
  for (size_t i = 0; i < a.outputs.size(); ++i)
    EXPECT_TRUE(sameBits(a.outputs[i], b.outputs[i]))
        << (i % 2 ? "stats" : "losses") << " of pack " << i / 2;
  for (size_t i = 0; i < a.gradients.size(); ++i)
    EXPECT_TRUE(sameBits(a.gradients[i], b.gradients[i]))
        << "gradients of pack " << i;
  EXPECT_TRUE(sameBits(a.state, b.state));
}

TEST_P(ReplayCudaTest, EqualsPlainLaunchesBitForBit) {
  ASSERT_OK_AND_TAKE(first, makeModel(GetParam(), {}));
  Trace replayed = trace(first);
  for (const Tensors &gradients : replayed.gradients)
    EXPECT_TRUE(allFinite(gradients));
  EXPECT_TRUE(allFinite(replayed.state));
  for (size_t i = 1; i < replayed.outputs.size(); i += 2)
    EXPECT_EQ(replayed.outputs[i][2], 1) << "the update of pack " << i / 2;
  struct Variant {
    const char *name;
    ExecutorOptions options;
  };
  const Variant variants[] = {{"plain", {.graph = false}},
                              {"the graph again", {}},
                              {"poisoned graph", {.poison = true}},
                              {"poisoned", {.poison = true, .graph = false}}};
  for (const Variant &variant : variants) {
    SCOPED_TRACE(variant.name);
    ASSERT_OK_AND_TAKE(model, makeModel(GetParam(), variant.options));
    expectSame(replayed, trace(model));
  }
}

static std::vector<PlanSpec> everyPlan() {
  std::vector<PlanSpec> specs;
  for (const std::string &config : configs())
    specs.push_back(specOf(config));
  return specs;
}

INSTANTIATE_TEST_SUITE_P(Models, ReplayCudaTest, testing::ValuesIn(configs()),
                         [](const auto &info) { return testName(info.param); });

int main(int argc, char **argv) { return runTests(argc, argv, everyPlan); }
