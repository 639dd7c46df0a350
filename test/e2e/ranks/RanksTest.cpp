//===- RanksTest.cpp - Training on N ranks is training on one -------------===//
//
// The same plan compiled for N ranks and for one, trained on the same packs a
// step. What may differ, and by how much:
//
// A gradient element is a sum over the P packs of a step. Ranks only change the
// order of these P terms, so the two sums differ by at most P eps S, S being
// the sum of the terms' sizes and eps that of float32. S is bounded by P times
// the largest element of the tensor's gradient.
//
// AdamW's epsilon is 1 here: the update lr m / (sqrt(v) + 1) then changes by at
// most lr times the change of the gradient, and the largest movement of a
// tensor's elements is lr times its largest gradient, give or take 1 in 1. So
// after one step the tensors differ by P P eps times their largest movement,
// and by the rounding of the element itself. In further steps the gradients
// also differ because the weights do; a step is given twice what the one before
// was: k steps differ by k 2^(k - 1) times the bound of one.
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

constexpr int64_t packTokens = 64, packsPerStep = 8;

/// A tensor put together from the ranks' slices.
struct Tensor {
  int64_t rows = 1;
  std::vector<float> before, after;
};

struct Outcome {
  std::vector<Step> steps;
  std::map<std::string, Tensor> tensors;
};

PlanSpec specOf(const std::string &config, int ranks,
                const std::string &dtype = "f32") {
  PlanSpec spec;
  spec.config = config;
  spec.dtype = dtype;
  spec.tokens = packTokens;
  spec.worldSize = ranks;
  return spec;
}

/// A pack a document; 40 of them have every token of the vocabulary.
TokenFile documents(int count, int64_t vocabulary,
                    bool (*supervised)(int) = nullptr) {
  TokenFile file;
  std::mt19937 random(5);
  uint64_t next = 0;
  for (int i = 0; i < count; ++i) {
    std::vector<int32_t> document;
    for (int t = 0; t < 40 + i % 24; ++t)
      document.push_back(int32_t((t % 2 ? uint64_t(random()) : next++) %
                                 uint64_t(vocabulary)));
    file.add(document, !supervised || supervised(i));
  }
  return file;
}

/// Every element is in the slice of exactly one rank.
void collect(const std::string &out, int ranks, Outcome &outcome) {
  std::map<std::string, int64_t> found;
  for (int rank = 0; rank < ranks; ++rank)
    for (const char *when : {"before", "after"}) {
      ASSERT_OK_AND_TAKE(slices,
                         readSlices(out + "." + std::to_string(rank), when));
      for (const Slice &slice : slices) {
        Tensor &tensor = outcome.tensors[slice.name];
        tensor.rows = slice.rows;
        auto &whole = when[0] == 'b' ? tensor.before : tensor.after;
        whole.resize(size_t(slice.elements), std::nanf(""));
        ASSERT_LE(slice.first + int64_t(slice.values.size()), slice.elements);
        std::copy(slice.values.begin(), slice.values.end(),
                  whole.begin() + slice.first);
        found[slice.name] += int64_t(slice.values.size());
      }
    }
  for (auto &[name, tensor] : outcome.tensors) {
    EXPECT_EQ(found[name], 2 * int64_t(tensor.before.size())) << name;
    for (float value : tensor.after)
      ASSERT_TRUE(std::isfinite(value)) << name;
  }
}

/// Trains with RankTrainer; `ranks` 1 is this program's way without mpirun.
void train(const PlanSpec &spec, const std::string &data, int steps,
           int64_t packs, Outcome &outcome) {
  ASSERT_OK_AND_TAKE(path, e2e::compilePlanFile(spec));
  TemporaryFolder folder;
  int ranks = int(spec.worldSize);
  Mpirun run(ranks, {QWEN_RANK_TRAINER, path, data, std::to_string(steps),
                     std::to_string(packs), folder / "out"});
  ASSERT_TRUE(run.finish()) << run.output();
  ASSERT_OK_AND_TAKE(reported, readSteps(folder / "out.steps"));
  outcome.steps = std::move(reported);
  collect(folder / "out", ranks, outcome);
}

double boundOf(int64_t packs, size_t steps) {
  double eps = std::numeric_limits<float>::epsilon();
  return double(packs * packs) * eps * double(steps) *
         std::exp2(double(steps) - 1);
}

void compareSteps(const Outcome &got, const Outcome &want, int64_t packs) {
  ASSERT_EQ(got.steps.size(), want.steps.size());
  for (size_t i = 0; i < got.steps.size(); ++i) {
    SCOPED_TRACE(fmt::format("step {}", i + 1));
    const Step &a = got.steps[i], &b = want.steps[i];
    double bound = boundOf(packs, i + 1);
    // The first loss has the same terms in another order, in float64.
    EXPECT_NEAR(a.loss, b.loss, b.loss * (i == 0 ? 1e-12 : bound));
    EXPECT_NEAR(a.gradNorm, b.gradNorm, b.gradNorm * bound);
    EXPECT_NEAR(a.evaluation, b.evaluation, b.evaluation * bound);
    EXPECT_EQ(a.packs, b.packs);
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.supervised, b.supervised);
    EXPECT_EQ(a.contextPairs, b.contextPairs);
    EXPECT_EQ(a.microBatches, b.microBatches);
    EXPECT_EQ(a.updates, b.updates);
  }
}

void compareTensors(const Outcome &got, const Outcome &want, int64_t packs) {
  double eps = std::numeric_limits<float>::epsilon();
  double steps = double(want.steps.size());
  ASSERT_EQ(got.tensors.size(), want.tensors.size());
  for (const auto &[name, b] : want.tensors) {
    const Tensor &a = got.tensors.at(name);
    EXPECT_EQ(a.before, b.before) << name << ": not the same initial numbers";
    ASSERT_EQ(a.after.size(), b.after.size()) << name;
    double moved = 0, worst = 0;
    for (size_t i = 0; i < b.after.size(); ++i)
      moved = std::max(moved, std::abs(double(b.after[i]) - b.before[i]));
    double bound = boundOf(packs, want.steps.size()) * moved;
    for (size_t i = 0; i < b.after.size(); ++i)
      worst = std::max(worst, std::abs(double(a.after[i]) - b.after[i]) -
                                  steps * eps * std::abs(b.after[i]));
    EXPECT_LE(worst, bound) << name << ", which moved by " << moved;
  }
}

/// No row keeps all its elements.
void expectAllRowsMoved(const Outcome &outcome) {
  for (const auto &[name, tensor] : outcome.tensors) {
    size_t columns = tensor.after.size() / size_t(tensor.rows);
    for (size_t row = 0; row < size_t(tensor.rows); ++row)
      EXPECT_FALSE(std::equal(tensor.after.begin() + row * columns,
                              tensor.after.begin() + (row + 1) * columns,
                              tensor.before.begin() + row * columns))
          << name << ", row " << row;
  }
}

class RanksTest : public testing::TestWithParam<const char *> {
protected:
  int64_t vocabulary() const {
    auto plan = e2e::compilePlan(specOf(GetParam(), 1));
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    return plan.ok() ? plan->info().vocabSize : 1;
  }
  /// N ranks and one, and what both must have in common.
  void expectSame(int ranks, const TokenFile &file, int steps, int64_t packs,
                  Outcome &got, const std::string &dtype = "f32") {
    expectSame(specOf(GetParam(), ranks, dtype), file, steps, packs, got);
  }
  void expectSame(const PlanSpec &spec, const TokenFile &file, int steps,
                  int64_t packs, Outcome &got) {
    TemporaryFolder folder;
    file.write(folder / "data");
    Outcome want;
    train(specOf(GetParam(), 1, spec.dtype), folder / "data", steps, packs,
          want);
    train(spec, folder / "data", steps, packs, got);
    if (HasFatalFailure())
      return;
    compareSteps(got, want, packs);
    compareTensors(got, want, packs);
  }
};

TEST_P(RanksTest, OneStep) {
  for (int ranks : {2, 3, 4, 7}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    Outcome got;
    expectSame(ranks, documents(8, vocabulary()), 1, packsPerStep, got);
  }
}

TEST_P(RanksTest, FiveSteps) {
  for (int ranks : {2, 3, 4, 7}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    Outcome got;
    expectSame(ranks, documents(40, vocabulary()), 5, packsPerStep, got);
    expectAllRowsMoved(got);
  }
}

/// Buckets of bf16 beside buckets of f32. The masters take the update.
TEST_P(RanksTest, Bf16) {
  Outcome got;
  expectSame(3, documents(8, vocabulary()), 1, packsPerStep, got, "bf16");
}

/// What ranks send of the embedding changes the order of sums only. A row of
/// the table lies in two shards where three ranks hold it.
TEST_P(RanksTest, RowsOfTheEmbeddingOrAllOfIt) {
  for (const char *exchange : {"rows", "table"})
    for (const char *dtype : {"f32", "bf16"}) {
      SCOPED_TRACE(fmt::format("{} in {}", exchange, dtype));
      PlanSpec spec = specOf(GetParam(), 3, dtype);
      spec.embeddingExchange = exchange;
      Outcome got;
      expectSame(spec, documents(16, vocabulary()), 2, packsPerStep, got);
    }
}

TEST_P(RanksTest, NinePacksOnFourRanksEndAnEpoch) {
  Outcome got;
  expectSame(4, documents(9, vocabulary()), 0, 4, got);
  std::vector<double> packs;
  for (const Step &step : got.steps)
    packs.push_back(step.packs);
  EXPECT_EQ(packs, (std::vector<double>{4, 4, 1}));
}

/// The loss is the mean over tokens, not over packs, ranks or micro-batches:
/// answers of one token, and one that is as long as all others together.
TEST_P(RanksTest, AnswersOfOneTokenWeighOneToken) {
  TokenFile file = documents(8, vocabulary());
  for (size_t i = 0; i + 1 < 8; ++i)
    std::fill(file.mask.begin() + file.offsets[i],
              file.mask.begin() + file.offsets[i + 1] - 1, uint8_t(0));
  Outcome got;
  expectSame(3, file, 2, 4, got);
  int64_t last = file.offsets[8] - file.offsets[7];
  double supervised = 0;
  for (const Step &step : got.steps)
    supervised += step.supervised;
  EXPECT_EQ(supervised, double(7 + last - 1));
}

TEST_P(RanksTest, LossFreeTokensOfARankChangeNothing) {
  Outcome got;
  expectSame(2, documents(8, vocabulary(), [](int i) { return i % 2 == 0; }), 0,
             2, got);
  double microBatches = 0;
  for (const Step &step : got.steps)
    microBatches += step.microBatches;
  EXPECT_EQ(microBatches, 4);
}

/// Gradients that are held in bf16: each element is rounded once, by at most u
/// of it. One step moves an element by lr g / (|g| + 1), which changes by at
/// most u of itself to first order; 2 u are given. A tied embedding is
/// scattered twice and rounded in between too, when its gradient may be larger
/// than in the end: it is not among these.
TEST(GradientsInBf16, AreRoundedOnce) {
  constexpr int64_t ranks = 2;
  constexpr double u = 1.0 / 256;
  PlanSpec spec = specOf("tiny-untied-1to3", ranks), narrow = spec;
  narrow.gradType = "bf16";
  auto plan = e2e::compilePlan(spec);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  TemporaryFolder folder;
  documents(2, plan->info().vocabSize).write(folder / "data");
  Outcome got, want;
  train(narrow, folder / "data", 1, ranks, got);
  train(spec, folder / "data", 1, ranks, want);
  if (HasFatalFailure())
    return;
  const Step &a = got.steps.at(0), &b = want.steps.at(0);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_NEAR(a.gradNorm, b.gradNorm, b.gradNorm * u);
  EXPECT_NE(a.gradNorm, b.gradNorm);
  for (const auto &[name, tensor] : want.tensors) {
    const std::vector<float> &after = got.tensors.at(name).after;
    EXPECT_EQ(got.tensors.at(name).before, tensor.before) << name;
    double moved = 0, worst = 0;
    for (size_t i = 0; i < after.size(); ++i) {
      double now = tensor.after[i], before = tensor.before[i];
      moved = std::max(moved, std::abs(now - before));
      worst = std::max(worst, std::abs(double(after[i]) - now) -
                                  std::abs(now) *
                                      std::numeric_limits<float>::epsilon());
    }
    EXPECT_LE(worst, 2 * u * moved) << name;
  }
}

/// Two scatters of one bucket, moments in bf16 too, more steps.
TEST(GradientsInBf16, TrainTiedEmbeddingsToo) {
  PlanSpec spec = specOf("tiny-tied-1to1", 2, "bf16");
  spec.gradType = "bf16";
  spec.momentType = "bf16";
  auto plan = e2e::compilePlan(spec);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  TemporaryFolder folder;
  documents(10, plan->info().vocabSize).write(folder / "data");
  Outcome got;
  train(spec, folder / "data", 5, 2, got);
  if (HasFatalFailure())
    return;
  ASSERT_EQ(got.steps.size(), 5u);
  for (const Step &step : got.steps)
    EXPECT_TRUE(std::isfinite(step.gradNorm) && step.gradNorm > 0);
  for (const auto &[name, tensor] : got.tensors)
    EXPECT_NE(tensor.after, tensor.before) << name;
}

INSTANTIATE_TEST_SUITE_P(Configs, RanksTest,
                         testing::Values("tiny-tied-1to1", "tiny-untied-1to3"),
                         [](const auto &info) {
                           return e2e::testName(info.param);
                         });

} // namespace
