//===- LossTest.cpp - Vocabulary projection and cross entropy --*- C++ -*-===//
//
// The reference forms whole logits in float64.
//
//===----------------------------------------------------------------------===//

#include "ParityTesting.h"

#include <cmath>

using namespace qwen;
using namespace qwen::parity;

namespace {

struct LossCase {
  int64_t tokens, hidden, vocabulary;
  bool accumulate = false;
  Tensor x, weight, labels, dnll, nll, dx, dweight;

  LossCase(int64_t tokens, int64_t hidden, int64_t vocabulary, DType dtype,
           Spacing spacing, uint64_t seed)
      : tokens(tokens), hidden(hidden), vocabulary(vocabulary),
        x(dtype, {tokens, hidden}, spacing),
        weight(dtype, {vocabulary, hidden}, spacing),
        labels(DType::I32, {tokens}), dnll(accumulationType(dtype), {tokens}),
        nll(accumulationType(dtype), {tokens}),
        dx(dtype, {tokens, hidden}, spacing),
        dweight(accumulationType(dtype), {vocabulary, hidden}, spacing) {
    std::mt19937_64 random(seed);
    x.uniform(random, -1, 1);
    weight.uniform(random, -1, 1);
    dnll.uniform(random, 0, 1);
    randomIds(labels, random, vocabulary);
    for (int64_t t = 0; t < tokens; ++t)
      if (random() % 3 == 0)
        labels.set(t, -100);
    for (Tensor *out : {&nll, &dx, &dweight})
      out->fill(77);
  }
  void forward() {
    launchKernel(LinearCrossEntropyArgs{x, weight, labels, nll, -100});
  }
  void backward() {
    launchKernel(LinearCrossEntropyGradArgs{x, weight, labels, dnll, nll, dx,
                                            dweight, -100, accumulate});
  }
};

struct Exact {
  Values nll, dx, dweight;
  explicit Exact(const LossCase &c)
      : nll(c.tokens), dx(c.x.size()), dweight(c.weight.size()) {
    for (int64_t t = 0; t < c.tokens; ++t)
      if (c.labels.get(t) >= 0)
        token(c, t, static_cast<int64_t>(c.labels.get(t)));
  }

private:
  void token(const LossCase &c, int64_t t, int64_t label) {
    Values p(c.vocabulary);
    double sum = 0;
    for (int64_t v = 0; v < c.vocabulary; ++v) {
      for (int64_t i = 0; i < c.hidden; ++i)
        p[v] += c.x.get(t * c.hidden + i) * c.weight.get(v * c.hidden + i);
      sum += std::exp(p[v]);
    }
    nll[t] = std::log(sum) - p[label];
    for (int64_t v = 0; v < c.vocabulary; ++v) {
      double d = c.dnll.get(t) * (std::exp(p[v]) / sum - (v == label));
      for (int64_t i = 0; i < c.hidden; ++i) {
        dx[t * c.hidden + i] += d * c.weight.get(v * c.hidden + i);
        dweight[v * c.hidden + i] += d * c.x.get(t * c.hidden + i);
      }
    }
  }
};

void expectParity(LossCase &c) {
  Exact exact(c);
  DType dtype = c.x.dtype();
  // Logits lose up to their size, at most `hidden`, in the exponential.
  double forward = sumTolerance(dtype, double(c.hidden + c.vocabulary), 2);
  double backward =
      sumTolerance(dtype, double(c.hidden + c.vocabulary + c.tokens), 4);
  c.forward();
  expectClose(c.nll, exact.nll, forward, "nll", double(c.hidden));
  c.nll.fill(77);
  c.backward();
  expectClose(c.nll, exact.nll, forward, "nll of the gradient",
              double(c.hidden));
  expectClose(c.dx, exact.dx, backward, "dx");
  expectClose(c.dweight, exact.dweight, backward, "dweight");
}

} // namespace

TEST(LinearCrossEntropy, MatchesFullLogits) {
  for (DType dtype : storageTypes)
    for (auto [tokens, hidden, vocabulary] :
         {std::tuple{1, 5, 3}, {37, 20, 100}, {300, 16, 33}}) {
      LossCase c(tokens, hidden, vocabulary, dtype, Spacing::Dense, 1);
      c.labels.set(0, 1);
      expectParity(c);
    }
}

/// 248320 terms that a sum in bf16 would lose, and labels at both ends.
TEST(LinearCrossEntropy, FirstAndLastIdOfALargeVocabulary) {
  for (DType dtype : {DType::F32, DType::BF16}) {
    LossCase c(3, 4, 248320, dtype, Spacing::Dense, 7);
    for (auto [token, label] : {std::pair(0, 0), {1, 1}, {2, 248319}})
      c.labels.set(token, label);
    expectParity(c);
  }
}

TEST(LinearCrossEntropy, TakesSlicesOfWiderRows) {
  for (DType dtype : storageTypes) {
    LossCase c(40, 20, 50, dtype, Spacing::Sliced, 2);
    expectParity(c);
  }
}

TEST(LinearCrossEntropy, GradientsMatchDifferences) {
  LossCase c(12, 6, 9, DType::F64, Spacing::Dense, 3);
  c.backward();
  auto loss = [&] {
    c.forward();
    return weightedSum(c.nll, c.dnll);
  };
  expectDifferences(c.x, c.dx, 72, 200, loss, "dx");
  expectDifferences(c.weight, c.dweight, 54, 200, loss, "dweight");
}

TEST(LinearCrossEntropy, IgnoredTokensGiveExactZeros) {
  LossCase c(30, 8, 20, DType::F32, Spacing::Dense, 4);
  c.labels.fill(-100);
  c.forward();
  EXPECT_EQ(c.nll.values(), Values(30, 0.0));
  c.backward();
  EXPECT_EQ(c.dx.values(), Values(30 * 8, 0.0));
  EXPECT_EQ(c.dweight.values(), Values(20 * 8, 0.0));
  c.accumulate = true;
  c.dweight.fill(5);
  c.backward();
  EXPECT_EQ(c.dweight.values(), Values(20 * 8, 5.0));
}

TEST(LinearCrossEntropy, IgnoredTokensMayHoldAnything) {
  LossCase first(300, 8, 20, DType::F32, Spacing::Dense, 5);
  LossCase second(300, 8, 20, DType::F32, Spacing::Dense, 5);
  for (int64_t t = 0; t < 300; ++t)
    if (second.labels.get(t) < 0)
      for (int64_t i = 0; i < 8; ++i)
        second.x.set(t * 8 + i, std::nan(""));
  first.backward();
  second.backward();
  EXPECT_EQ(first.nll.bits(), second.nll.bits());
  EXPECT_EQ(first.dx.bits(), second.dx.bits());
  EXPECT_EQ(first.dweight.bits(), second.dweight.bits());
}

TEST(LinearCrossEntropy, AnInfiniteLossHasNoFiniteGradient) {
  // The logit of the label is minus infinity, the others are finite.
  LossCase c(1, 8, 20, DType::F32, Spacing::Dense, 5);
  c.labels.set(0, 3);
  for (int64_t i = 0; i < 8; ++i) {
    c.x.set(i, 1e30);
    for (int64_t row = 0; row < 20; ++row)
      c.weight.set(row * 8 + i, row == 3 ? -1e30 : 0);
  }
  c.backward();
  EXPECT_EQ(c.nll.get(0), std::numeric_limits<double>::infinity());
  for (double value : c.dx.values())
    EXPECT_TRUE(std::isnan(value));
  for (double value : c.dweight.values())
    EXPECT_TRUE(std::isnan(value));
}

TEST(LinearCrossEntropy, LabelsOutsideStayInsideMemory) {
  LossCase c(4, 8, 20, DType::F32, Spacing::Dense, 6);
  for (int64_t t = 0; t < 4; ++t)
    c.labels.set(t, t % 2 ? 20 : -2000000000);
  c.backward();
  EXPECT_EQ(c.nll.values(), Values(4, 0.0));
}

TEST(LinearCrossEntropy, MicroBatchesAddToTheSameBits) {
  // A chain of additions in token order, whatever the blocks and launches are.
  LossCase whole(400, 8, 20, DType::F32, Spacing::Dense, 7);
  LossCase part(150, 8, 20, DType::F32, Spacing::Dense, 8);
  LossCase rest(250, 8, 20, DType::F32, Spacing::Dense, 9);
  whole.backward();
  for (LossCase *c : {&part, &rest}) {
    int64_t offset = c == &part ? 0 : 150;
    c->weight.setValues(whole.weight.values());
    for (int64_t t = 0; t < c->tokens; ++t) {
      c->labels.set(t, whole.labels.get(offset + t));
      c->dnll.set(t, whole.dnll.get(offset + t));
      for (int64_t i = 0; i < 8; ++i)
        c->x.set(t * 8 + i, whole.x.get((offset + t) * 8 + i));
    }
  }
  part.backward();
  rest.dweight.setValues(part.dweight.values());
  rest.accumulate = true;
  rest.backward();
  EXPECT_EQ(rest.dweight.bits(), whole.dweight.bits());
  EXPECT_EQ(part.nll.bits(), whole.nll.bits(0, 150));
  EXPECT_EQ(rest.dx.bits(), whole.dx.bits(150, 400));
}

TEST(LinearCrossEntropy, ThreadCountDoesNotMatter) {
  LossCase c(300, 40, 500, DType::F32, Spacing::Dense, 10);
  auto bits = [&] {
    c.backward();
    return std::vector{c.nll.bits(), c.dx.bits(), c.dweight.bits()};
  };
  setThreads(1);
  auto one = bits();
  for (int threads : {2, 3}) {
    setThreads(threads);
    EXPECT_EQ(bits(), one) << threads << " threads";
  }
}
