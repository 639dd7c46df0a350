//===- RanksCudaTest.cpp - Training on two GPUs is training on one --------===//
//
// The same model compiled for two ranks and for one, trained on the same two
// packs a step, one a rank. The forward pass has the same launches, so the
// losses of the first step are the same terms. A gradient is a sum over the
// tokens of both packs, in float32, whose order differs: the second pack's are
// added to the first one's sum as a whole or, by one rank, one by one. Two
// orders of T terms differ by at most T eps S, S being the sum of the terms'
// sizes, which is taken for at most P times the largest gradient of the tensor,
// as in RanksTest. AdamW's epsilon is 1: see there. Masters in float32 take the
// update.
//
// After that the weights, masters rounded to bf16, may differ by one rounding:
// 2 u of an element, u = 2^-8. A loss or a gradient is linear in the weights of
// each of the products between it and the tokens, so it changes by at most that
// for each product that a token goes through, forward and backward.
//
//===----------------------------------------------------------------------===//

#include "test/e2e/Harness.h"
#include "test/e2e/ranks/Mpirun.h"
#include "test/e2e/ranks/RankFiles.h"
#include "test/unit/runtime/TokenFile.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <cuda_runtime.h>

using namespace qwen;
using namespace qwen::ranktest;
using qwen::e2e::PlanSpec;

namespace {

constexpr int64_t packs = 2, packTokens = 320;
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
  return spec;
}

std::vector<std::string> configs() {
  return {"tiny-hopper-tied", "tiny-hopper-untied"};
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
  /// Trains with RankTrainer; one rank without mpirun.
  void train(int ranks, int steps, Outcome &outcome, bool graph = true) {
    TemporaryFolder folder;
    documents(int(steps * packs)).write(folder / "data");
    ASSERT_OK_AND_TAKE(path, e2e::compilePlanFile(specOf(GetParam(), ranks)));
    std::vector<std::string> command = {
        QWEN_RANK_TRAINER,     path,
        folder / "data",       std::to_string(steps),
        std::to_string(packs), folder / "out"};
    if (!graph)
      command.push_back("plain");
    Mpirun run(ranks == 1 ? 0 : ranks, command);
    ASSERT_TRUE(run.finish()) << run.output();
    ASSERT_OK_AND_TAKE(reported, readSteps(folder / "out.steps"));
    outcome.steps = std::move(reported);
    ASSERT_EQ(outcome.steps.size(), size_t(steps));
    collect(folder / "out", ranks, outcome);
  }
};

} // namespace

TEST_P(RanksCudaTest, OneStepIsThatOfOneRank) {
  Outcome one, two;
  train(1, 1, one);
  train(2, 1, two);
  ASSERT_EQ(two.tensors.size(), one.tensors.size());
  double eps = std::numeric_limits<float>::epsilon();
  double bound = double(packs * packTokens) * eps * double(packs);
  EXPECT_NEAR(two.steps[0].loss, one.steps[0].loss, one.steps[0].loss * 1e-12);
  EXPECT_NEAR(two.steps[0].gradNorm, one.steps[0].gradNorm,
              one.steps[0].gradNorm * bound);
  for (const auto &[name, b] : one.tensors) {
    const Tensor &a = two.tensors[name];
    ASSERT_EQ(a.after.size(), b.after.size()) << name;
    EXPECT_TRUE(sameBits(a.before, b.before)) << name;
    double moved = 0, worst = 0;
    for (size_t i = 0; i < b.after.size(); ++i) {
      ASSERT_TRUE(std::isfinite(a.after[i])) << name << " " << i;
      moved = std::max(moved, std::abs(double(b.after[i]) - b.before[i]));
      worst = std::max(worst, std::abs(double(a.after[i]) - b.after[i]) -
                                  eps * std::abs(b.after[i]));
    }
    EXPECT_GT(moved, 0) << name;
    EXPECT_LE(worst, bound * moved) << name << ", which moved by " << moved;
  }
}

TEST_P(RanksCudaTest, FiveSteps) {
  constexpr int steps = 5;
  Outcome one, two, again, plain;
  train(1, steps, one);
  train(2, steps, two);
  train(2, steps, again);
  train(2, steps, plain, /*graph=*/false);
  EXPECT_TRUE(two == again) << "a second run";
  EXPECT_TRUE(two == plain) << "plain launches instead of graphs";
  double u = std::exp2(-8);
  for (size_t i = 0; i < size_t(steps); ++i) {
    SCOPED_TRACE(fmt::format("step {}", i + 1));
    const Step &a = two.steps[i], &b = one.steps[i];
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.supervised, b.supervised);
    EXPECT_EQ(a.updates, double(i + 1));
    EXPECT_NEAR(a.loss, b.loss, products * 2 * u * b.loss);
    EXPECT_NEAR(a.gradNorm, b.gradNorm, 2 * products * 2 * u * b.gradNorm);
    EXPECT_NEAR(a.evaluation, b.evaluation, products * 2 * u * b.evaluation);
  }
  EXPECT_LT(two.steps.back().evaluation, two.steps.front().evaluation);
}

INSTANTIATE_TEST_SUITE_P(Models, RanksCudaTest, testing::ValuesIn(configs()),
                         [](const auto &info) {
                           return e2e::testName(info.param);
                         });

int main(int argc, char **argv) {
  e2e::takeTestOptions(argc, argv);
  int devices = 0;
  cudaError_t error = cudaGetDeviceCount(&devices);
  if (!e2e::testOptions().compileOnly &&
      (error != cudaSuccess || devices < 2)) {
    std::printf("skipped: two GPUs are needed, this machine shows %d (%s)\n",
                devices, cudaGetErrorString(error));
    return 77;
  }
  return e2e::runTests(argc, argv, [] {
    std::vector<PlanSpec> specs;
    for (const std::string &config : configs())
      for (int ranks : {1, 2})
        specs.push_back(specOf(config, ranks));
    return specs;
  });
}
