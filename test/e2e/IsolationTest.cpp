//===- IsolationTest.cpp - Documents of a pack do not see each other ------===//
//
// Changes one document of a pack and expects the losses of the others, and what
// they contribute to every gradient, to keep each bit. A document without
// labels contributes exact zeros, so the gradient of a pack in which only B has
// labels is B's contribution.
//
//===----------------------------------------------------------------------===//

#include "Model.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace qwen;
using namespace qwen::e2e;

namespace {

/// Around nothing, around a chunk of the gated delta rule, around two.
const std::vector<int64_t> lengths = {1, 2, 3, 4, 5, 63, 64, 65, 127, 128, 129};

/// What a pack gives.
struct Result {
  std::vector<float> nll;
  Tensors gradients;
};

PlanSpec specOf(const std::string &config) {
  PlanSpec spec;
  spec.config = config;
  spec.target = testOptions().target;
  spec.dtype = testOptions().isCuda() ? "bf16" : "f32";
  spec.tokens = 400;
  spec.maxDocuments = 6;
  return spec;
}

/// A fresh model for each test.
class IsolationTest : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    ASSERT_OK_AND_TAKE(built, goldenModel(specOf(GetParam())));
    model.emplace(std::move(built));
  }

  Result run(const Batch &pack) {
    model->beginStep();
    Result result;
    result.nll = model->microStep(pack, 1.0f / 64);
    result.gradients = model->gradients();
    return result;
  }
  Result run(const std::vector<TestDocument> &documents) {
    return run(makePack(documents, model->limits()));
  }

  TestDocument document(int64_t length) {
    return randomDocument(generator, length, model->vocabulary());
  }

  /// Changes the tokens of `documents[changed]`, which gets no label, and
  /// expects nothing of the others to move.
  void expectIsolated(std::vector<TestDocument> documents, size_t changed) {
    std::string what;
    for (const TestDocument &document : documents)
      what += fmt::format(" {}", document.length());
    SCOPED_TRACE(fmt::format("lengths{}, changed {}", what, changed));
    documents[changed] = documents[changed].withoutLabels();
    Batch pack = makePack(documents, model->limits());
    Result before = run(pack);
    documents[changed] =
        documents[changed].withOtherTokens(generator, model->vocabulary());
    Result after = run(documents);
    for (size_t i = 0; i < documents.size(); ++i)
      EXPECT_TRUE(
          sameBits(sliceOf(before.nll, pack, i), sliceOf(after.nll, pack, i)))
          << "losses of document " << i;
    EXPECT_TRUE(sameBits(before.gradients, after.gradients));
    EXPECT_TRUE(allFinite(after.gradients));
  }

  std::optional<Model> model;
  Generator generator{20240501};
};

} // namespace

TEST_P(IsolationTest, TwoDocumentsInBothOrders) {
  for (size_t i = 0; i < lengths.size(); ++i)
    // Each length meets three others, of which one is of its own kind.
    for (size_t shift : {size_t(1), size_t(4), size_t(7)}) {
      TestDocument a = document(lengths[i]);
      TestDocument b = document(lengths[(i + shift) % lengths.size()]);
      expectIsolated({a, b}, 0);
      expectIsolated({b, a}, 1);
    }
}

TEST_P(IsolationTest, ThreeDocuments) {
  for (size_t i = 0; i < lengths.size(); ++i) {
    std::vector<TestDocument> documents;
    for (size_t shift : {0, 5, 9})
      documents.push_back(document(lengths[(i + shift) % lengths.size()]));
    expectIsolated(documents, i % 3);
  }
}

TEST_P(IsolationTest, ChangedDocumentWithLabelsMovesNoOtherLoss) {
  for (auto [first, second] : {std::pair(65, 64), std::pair(1, 129),
                               std::pair(128, 5), std::pair(3, 2)}) {
    std::vector<TestDocument> documents = {document(first), document(second),
                                           document(63)};
    Batch pack = makePack(documents, model->limits());
    Result before = run(pack);
    documents[1] = documents[1].withOtherTokens(generator, model->vocabulary());
    Result after = run(documents);
    for (size_t i : {0, 2})
      EXPECT_TRUE(
          sameBits(sliceOf(before.nll, pack, i), sliceOf(after.nll, pack, i)));
    // The change itself is seen: these are not dead inputs.
    EXPECT_FALSE(
        sameBits(sliceOf(before.nll, pack, 1), sliceOf(after.nll, pack, 1)));
  }
}

TEST_P(IsolationTest, DocumentInEveryPlaceHasTheSameLosses) {
  for (int64_t length : lengths) {
    TestDocument b = document(length);
    std::vector<float> alone = sliceOf(
        run(std::vector{b}).nll, makePack(std::vector{b}, model->limits()), 0);
    std::vector<std::vector<TestDocument>> packs = {
        {document(129), b},
        {document(1), b, document(64)},
        {document(7), document(66), b}};
    for (size_t i = 0; i < packs.size(); ++i) {
      size_t place = i == 2 ? 2 : 1;
      Batch pack = makePack(packs[i], model->limits());
      EXPECT_TRUE(sameBits(alone, sliceOf(run(pack).nll, pack, place)))
          << "length " << length << ", pack " << i;
    }
  }
}

TEST_P(IsolationTest, NotANumberInANeighbourMovesNoLoss) {
  Tensors weights = model->weights();
  if (!weights.count("lm_head.weight"))
    GTEST_SKIP() << "NaN in a tied embedding is NaN in every token's logits";
  // The last token's embedding becomes NaN; only neighbours have that token.
  std::vector<float> *embedding = nullptr;
  for (auto &[name, values] : weights)
    if (name.ends_with("embed_tokens.weight"))
      embedding = &values;
  ASSERT_TRUE(embedding);
  int32_t poison = model->vocabulary() - 1;
  size_t width = embedding->size() / size_t(model->vocabulary());
  std::fill(embedding->end() - ptrdiff_t(width), embedding->end(),
            std::numeric_limits<float>::quiet_NaN());
  ASSERT_OK(model->setWeights(weights));
  for (auto [first, second] :
       {std::pair(65, 64), std::pair(1, 129), std::pair(128, 5)}) {
    std::vector<TestDocument> documents = {
        randomDocument(generator, first, poison),
        randomDocument(generator, second, poison),
        randomDocument(generator, 63, poison)};
    Batch pack = makePack(documents, model->limits());
    std::vector<float> before = run(pack).nll;
    std::ranges::fill(documents[1].tokens, poison);
    std::vector<float> after = run(documents).nll;
    for (size_t i : {0, 2})
      EXPECT_TRUE(sameBits(sliceOf(before, pack, i), sliceOf(after, pack, i)));
    for (float loss : sliceOf(after, pack, 1))
      EXPECT_TRUE(loss == 0 || std::isnan(loss)) << loss;
  }
}

TEST_P(IsolationTest, PaddingIsNotLookedAt) {
  std::vector<TestDocument> documents = {document(65), document(3)};
  Batch pack = makePack(documents, model->limits());
  Result before = run(pack);
  for (size_t t = size_t(pack.used); t < pack.tokens.size(); ++t) {
    pack.tokens[t] = draw(generator, model->vocabulary());
    pack.positions[t] = draw(generator, 4096);
  }
  Result after = run(pack);
  EXPECT_TRUE(sameBits(before.nll, after.nll));
  EXPECT_TRUE(sameBits(before.gradients, after.gradients));
}

TEST_P(IsolationTest, EmptyDocumentsAndUnusedSlotsAreNothing) {
  TestDocument a = document(64), b = document(5), c = document(127), empty;
  Result plain = run(std::vector{a, b, c});
  const std::vector<std::vector<TestDocument>> layouts = {
      {empty, a, b, c},
      {a, empty, empty, b, c},
      {a, b, empty, c, empty},
      {empty, a, empty, b, empty, c}};
  for (const auto &layout : layouts) {
    Result result = run(layout);
    EXPECT_TRUE(sameBits(plain.nll, result.nll));
    EXPECT_TRUE(sameBits(plain.gradients, result.gradients));
  }
}

TEST_P(IsolationTest, PackOfPaddingAloneContributesNothing) {
  Result result = run(std::vector<TestDocument>{});
  for (float value : result.nll)
    EXPECT_EQ(value, 0);
  for (const auto &[name, values] : result.gradients)
    EXPECT_EQ(norm(values), 0) << name;
}

TEST_P(IsolationTest, FullPackWithoutPadding) {
  std::vector<TestDocument> documents = {document(129), document(128),
                                         document(143)};
  for (size_t changed : {0, 1, 2})
    expectIsolated(documents, changed);
}

INSTANTIATE_TEST_SUITE_P(Models, IsolationTest,
                         testing::ValuesIn(tinyConfigs()),
                         [](const auto &info) { return testName(info.param); });

int main(int argc, char **argv) {
  return runTests(argc, argv, [] {
    std::vector<PlanSpec> specs;
    for (const std::string &config : tinyConfigs())
      specs.push_back(specOf(config));
    return specs;
  });
}
