//===- RanksCudaTest.cpp - Training on several GPUs is training on one ----===//
//
// The same model compiled for two and three ranks and for one, trained on the
// same two packs a step, one a rank: a third rank has an empty one. The forward
// pass has the same launches, so the losses of the first step are the same
// terms. A gradient is a sum over the tokens of both packs, in float32, whose
// order differs: the second pack's are added to the first one's sum as a whole
// or, by one rank, one by one. Two orders of T terms differ by at most T eps S,
// S being the sum of the terms' sizes, which is taken for at most P times the
// largest gradient of the tensor, as in RanksTest. AdamW's epsilon is 1: see
// there. Masters in float32 take the update.
//
// After that the weights, masters rounded to bf16, may differ by one rounding:
// 2 u of an element, u = 2^-8. A loss or a gradient is linear in the weights of
// each of the products between it and the tokens, so it changes by at most that
// for each product that a token goes through, forward and backward.
//
//===----------------------------------------------------------------------===//

#include "Mpirun.h"
#include "RankFiles.h"

#include "test/e2e/Harness.h"
#include "test/unit/runtime/TokenFile.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

using namespace qwen;
using namespace qwen::ranktest;
using qwen::e2e::PlanSpec;

namespace {

constexpr int64_t packs = 2, packTokens = 320;
constexpr int rankCounts[] = {2, 3};
/// Products on a token's way: four layers of at most seven, and the head.
constexpr double products = 4 * 7 + 1;

/// A tensor put together from the ranks' slices.
struct Tensor {
  std::vector<float> before, after;
};

struct Outcome {
  std::vector<Step> steps;
  std::map<std::string, Tensor> tensors;
  bool operator==(const Outcome &other) const;
};

bool sameBits(const std::vector<float> &a, const std::vector<float> &b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

bool Outcome::operator==(const Outcome &other) const {
  if (tensors.size() != other.tensors.size())
    return false;
  for (const auto &[name, tensor] : tensors) {
    auto found = other.tensors.find(name);
    if (found == other.tensors.end() ||
        !sameBits(tensor.after, found->second.after))
      return false;
  }
  return steps.size() == other.steps.size() &&
         std::memcmp(steps.data(), other.steps.data(),
                     steps.size() * sizeof(Step)) == 0;
}

PlanSpec specOf(const std::string &config, int ranks) {
  PlanSpec spec;
  spec.config = config;
  spec.target = e2e::testOptions().target;
  spec.dtype = "bf16";
  spec.tokens = packTokens;
  spec.worldSize = ranks;
  // The table of such a small model would be less than the rows.
  if (ranks > 1)
    spec.embeddingExchange = "rows";
  return spec;
}

/// A pack a document.
TokenFile documents(int count) {
  TokenFile file;
  std::mt19937 random(5);
  for (int i = 0; i < count; ++i) {
    std::vector<int32_t> document;
    for (int t = 0; t < 200 + i * 11 % 120; ++t)
      document.push_back(int32_t(random() % 256));
    file.add(document);
  }
  return file;
}

void collect(const std::string &out, int ranks, Outcome &outcome) {
  for (int rank = 0; rank < ranks; ++rank)
    for (const char *when : {"before", "after"}) {
      ASSERT_OK_AND_TAKE(slices,
                         readSlices(out + "." + std::to_string(rank), when));
      for (const Slice &slice : slices) {
        Tensor &tensor = outcome.tensors[slice.name];
        auto &whole = when[0] == 'b' ? tensor.before : tensor.after;
        // What no rank holds stays a NaN.
        whole.resize(size_t(slice.elements), std::nanf(""));
        ASSERT_LE(slice.first + int64_t(slice.values.size()), slice.elements);
        std::copy(slice.values.begin(), slice.values.end(),
                  whole.begin() + slice.first);
      }
    }
}

class RanksCudaTest : public testing::TestWithParam<std::string> {
protected:
  /// Trains with RankTrainer; one rank without mpirun. `way` as it takes it.
  void train(int ranks, int steps, Outcome &outcome,
             const std::string &way = "") {
    TemporaryFolder folder;
    documents(int(steps * packs)).write(folder / "data");
    ASSERT_OK_AND_TAKE(path, e2e::compilePlanFile(specOf(GetParam(), ranks)));
    std::vector<std::string> command = {
        QWEN_RANK_TRAINER,     path,
        folder / "data",       std::to_string(steps),
        std::to_string(packs), folder / "out"};
    if (!way.empty())
      command.push_back(way);
    Mpirun run(ranks, command);
    ASSERT_TRUE(run.finish()) << run.output();
    ASSERT_OK_AND_TAKE(reported, readSteps(folder / "out.steps"));
    outcome.steps = std::move(reported);
    ASSERT_EQ(outcome.steps.size(), size_t(steps));
    collect(folder / "out", ranks, outcome);
  }
};

void expectSameStep(const Outcome &several, const Outcome &one) {
  ASSERT_EQ(several.steps.size(), 1u);
  ASSERT_EQ(several.tensors.size(), one.tensors.size());
  double eps = std::numeric_limits<float>::epsilon();
  double bound = double(packs * packTokens) * eps * double(packs);
  const Step &a = several.steps[0], &b = one.steps[0];
  EXPECT_NEAR(a.loss, b.loss, b.loss * 1e-12);
  EXPECT_NEAR(a.gradNorm, b.gradNorm, b.gradNorm * bound);
  for (const auto &[name, expected] : one.tensors) {
    const Tensor &found = several.tensors.at(name);
    ASSERT_EQ(found.after.size(), expected.after.size()) << name;
    EXPECT_TRUE(sameBits(found.before, expected.before)) << name;
    double moved = 0, worst = 0;
    for (size_t i = 0; i < expected.after.size(); ++i) {
      float value = expected.after[i];
      ASSERT_TRUE(std::isfinite(found.after[i])) << name << " " << i;
      moved = std::max(moved, std::abs(double(value) - expected.before[i]));
      worst = std::max(worst, std::abs(double(found.after[i]) - value) -
                                  eps * std::abs(value));
    }
    EXPECT_GT(moved, 0) << name;
    EXPECT_LE(worst, bound * moved) << name << ", which moved by " << moved;
  }
}

void expectSimilarSteps(const Outcome &several, const Outcome &one) {
  double u = std::exp2(-8);
  ASSERT_EQ(several.steps.size(), one.steps.size());
  for (size_t i = 0; i < one.steps.size(); ++i) {
    SCOPED_TRACE(fmt::format("step {}", i + 1));
    const Step &a = several.steps[i], &b = one.steps[i];
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.supervised, b.supervised);
    EXPECT_EQ(a.updates, double(i + 1));
    EXPECT_NEAR(a.loss, b.loss, products * 2 * u * b.loss);
    EXPECT_NEAR(a.gradNorm, b.gradNorm, 2 * products * 2 * u * b.gradNorm);
    EXPECT_NEAR(a.evaluation, b.evaluation, products * 2 * u * b.evaluation);
  }
  EXPECT_LT(several.steps.back().evaluation, several.steps.front().evaluation);
}

} // namespace

TEST_P(RanksCudaTest, OneStepIsThatOfOneRank) {
  Outcome one;
  train(1, 1, one);
  for (int ranks : rankCounts) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    Outcome several;
    train(ranks, 1, several);
    expectSameStep(several, one);
  }
}

TEST_P(RanksCudaTest, FiveSteps) {
  constexpr int steps = 5;
  Outcome one;
  train(1, steps, one);
  for (int ranks : rankCounts) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    Outcome several, again, plain, nccl;
    train(ranks, steps, several);
    train(ranks, steps, again);
    train(ranks, steps, plain, "plain");
    train(ranks, steps, nccl, "nccl");
    EXPECT_TRUE(several == again) << "a second run";
    EXPECT_TRUE(several == plain) << "plain launches instead of graphs";
    EXPECT_TRUE(several == nccl) << "gathers by NCCL instead of copies";
    expectSimilarSteps(several, one);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RanksCudaTest,
                         testing::ValuesIn(e2e::tinyConfigs()),
                         [](const auto &info) {
                           return e2e::testName(info.param);
                         });

int main(int argc, char **argv) {
  return e2e::runTests(argc, argv, [] {
    std::vector<PlanSpec> specs;
    for (const std::string &config : e2e::tinyConfigs())
      for (int ranks : {1, 2, 3})
        specs.push_back(specOf(config, ranks));
    return specs;
  });
}
