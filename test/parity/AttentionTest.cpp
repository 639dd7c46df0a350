//===- AttentionTest.cpp - Attention against a plain softmax ---*- C++ -*-===//
//
// The reference forms each row of probabilities in float64.
//
//===----------------------------------------------------------------------===//

#include "ParityTesting.h"
#include "runtime/selfcheck/KernelBounds.h"

#include <cmath>

using namespace qwen;
using namespace qwen::parity;

namespace {

struct AttentionCase {
  Pack pack;
  int64_t heads, keyHeads, dim;
  double scale;
  Tensor cu, q, k, v, dout, o, lse, dq, dk, dv;

  AttentionCase(const Pack &pack, int64_t heads, int64_t keyHeads, int64_t dim,
                DType dtype, Spacing spacing, uint64_t seed)
      : pack(pack), heads(heads), keyHeads(keyHeads), dim(dim),
        scale(1 / std::sqrt(double(dim))), cu(pack.tensor()),
        q(dtype, queries(), spacing), k(dtype, keys(), spacing),
        v(dtype, keys(), spacing), dout(dtype, queries(), spacing),
        o(dtype, queries(), spacing),
        lse(accumulationType(dtype), {pack.tokens, heads}, spacing),
        dq(dtype, queries(), spacing), dk(dtype, keys(), spacing),
        dv(dtype, keys(), spacing) {
    std::mt19937_64 random(seed);
    q.uniform(random, -2, 2);
    k.uniform(random, -2, 2);
    v.uniform(random, -1, 1);
    dout.uniform(random, -1, 1);
    for (Tensor *out : {&o, &lse, &dq, &dk, &dv})
      out->fill(77);
  }
  std::vector<int64_t> queries() const { return {pack.tokens, heads, dim}; }
  std::vector<int64_t> keys() const { return {pack.tokens, keyHeads, dim}; }

  void forward() { launchKernel(AttentionArgs{q, k, v, cu, o, lse, scale}); }
  void backward() {
    launchKernel(
        AttentionGradArgs{q, k, v, o, lse, dout, cu, dq, dk, dv, scale});
  }
  /// Elements of queries and keys are up to 2.
  double largestScore() const { return 4 * double(dim) * scale; }
};

struct Exact {
  Values o, lse, dq, dk, dv;

  explicit Exact(const AttentionCase &c)
      : o(c.q.size()), lse(c.lse.size()), dq(c.q.size()), dk(c.k.size()),
        dv(c.v.size()) {
    for (int64_t d = 0; d < c.pack.documents(); ++d)
      for (int64_t t = c.pack.begin(d); t < c.pack.end(d); ++t)
        for (int64_t h = 0; h < c.heads; ++h)
          row(c, c.pack.begin(d), t, h);
  }

private:
  /// Output and contributions to the gradients of one query.
  void row(const AttentionCase &c, int64_t begin, int64_t t, int64_t h) {
    int64_t query = (t * c.heads + h) * c.dim,
            keyHead = h * c.keyHeads / c.heads;
    auto key = [&](int64_t s) { return (s * c.keyHeads + keyHead) * c.dim; };
    Values p(t - begin + 1);
    double sum = 0;
    for (int64_t s = begin; s <= t; ++s) {
      double score = 0;
      for (int64_t i = 0; i < c.dim; ++i)
        score += c.q.get(query + i) * c.k.get(key(s) + i);
      p[s - begin] = std::exp(c.scale * score);
      sum += p[s - begin];
    }
    lse[t * c.heads + h] = std::log(sum);
    Values dp(p.size());
    double along = 0;
    for (int64_t s = begin; s <= t; ++s) {
      p[s - begin] /= sum;
      for (int64_t i = 0; i < c.dim; ++i) {
        o[query + i] += p[s - begin] * c.v.get(key(s) + i);
        dp[s - begin] += c.dout.get(query + i) * c.v.get(key(s) + i);
        dv[key(s) + i] += p[s - begin] * c.dout.get(query + i);
      }
      along += p[s - begin] * dp[s - begin];
    }
    for (int64_t s = begin; s <= t; ++s) {
      double ds = c.scale * p[s - begin] * (dp[s - begin] - along);
      for (int64_t i = 0; i < c.dim; ++i) {
        dq[query + i] += ds * c.k.get(key(s) + i);
        dk[key(s) + i] += ds * c.q.get(query + i);
      }
    }
  }
};

void expectParity(AttentionCase &c) {
  c.forward();
  Exact exact(c);
  DType dtype = c.q.dtype();
  int64_t longest = c.pack.longest(), group = c.heads / c.keyHeads;
  double forward =
      bounds::attention(dtype, longest, group, c.dim, c.largestScore());
  double backward =
      bounds::attentionGrad(dtype, longest, group, c.dim, c.largestScore());
  expectClose(c.o, exact.o, forward, "o");
  expectClose(c.lse, exact.lse, forward, "lse");
  c.backward();
  double stored = bounds::attentionStored(dtype, c.dim);
  double terms = bounds::attentionGradientTerms;
  expectClose(c.dq, exact.dq, backward + stored, "dq", terms);
  expectClose(c.dk, exact.dk, backward + stored, "dk", terms);
  expectClose(c.dv, exact.dv, backward, "dv");
}

std::vector<std::vector<uint8_t>> resultBits(AttentionCase &c) {
  c.forward();
  c.backward();
  std::vector<std::vector<uint8_t>> bits;
  for (Tensor *out : {&c.o, &c.lse, &c.dq, &c.dk, &c.dv})
    bits.push_back(out->bits());
  return bits;
}

} // namespace

TEST(Attention, MatchesSoftmaxOnRaggedPacks) {
  for (DType dtype : storageTypes)
    for (auto [heads, keyHeads, dim] :
         {std::tuple{2, 2, 16}, {3, 1, 20}, {4, 2, 33}}) {
      AttentionCase c(raggedPack(), heads, keyHeads, dim, dtype, Spacing::Dense,
                      1);
      expectParity(c);
    }
}

TEST(Attention, TakesSlicesOfWiderRows) {
  for (DType dtype : storageTypes) {
    AttentionCase c(packOf({70, 0, 31}, 1, 5), 6, 2, 24, dtype, Spacing::Sliced,
                    2);
    expectParity(c);
  }
}

TEST(Attention, TakesWideHeads) {
  AttentionCase c(packOf({0, 0, 70, 66, 0}), 2, 1, 256, DType::F32,
                  Spacing::Dense, 3);
  expectParity(c);
}

TEST(Attention, MatchesSoftmaxOnRandomPacks) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 4; ++i) {
    AttentionCase c(randomPack(random, 300), 2, 1, 16, DType::F32,
                    Spacing::Dense, 5 + i);
    expectParity(c);
  }
}

TEST(Attention, GradientsMatchDifferences) {
  AttentionCase c(packOf({7, 0, 70}, 1, 2), 2, 1, 6, DType::F64, Spacing::Dense,
                  6);
  c.forward();
  c.backward();
  auto loss = [&] {
    c.forward();
    return weightedSum(c.o, c.dout);
  };
  double length = double(c.o.size());
  expectDifferences(c.q, c.dq, 40, length, loss, "dq");
  expectDifferences(c.k, c.dk, 40, length, loss, "dk");
  expectDifferences(c.v, c.dv, 40, length, loss, "dv");
}

TEST(Attention, LargeScoresStayFinite) {
  AttentionCase c(packOf({100}), 2, 2, 16, DType::F32, Spacing::Dense, 7);
  for (Tensor *x : {&c.q, &c.k})
    for (int64_t i = 0; i < x->size(); ++i)
      x->set(i, 1000 * x->get(i));
  resultBits(c);
  for (Tensor *out : {&c.o, &c.lse, &c.dq, &c.dk, &c.dv})
    for (double value : out->values())
      ASSERT_TRUE(std::isfinite(value));
}

TEST(Attention, DocumentsDoNotSeeEachOther) {
  for (int64_t length : {1, 2, 3, 4, 5, 63, 64, 65, 127, 128, 129}) {
    Pack pack = packOf({length, 100, 37}, 0, 3);
    AttentionCase first(pack, 2, 1, 16, DType::BF16, Spacing::Dense, 8);
    AttentionCase second(pack, 2, 1, 16, DType::BF16, Spacing::Dense, 8);
    for (Tensor *in : {&second.q, &second.k, &second.v, &second.dout}) {
      int64_t row = in->size() / pack.tokens;
      for (int64_t i = 0; i < length * row; ++i)
        in->set(i, 3 - in->get(i));
    }
    resultBits(first);
    resultBits(second);
    for (auto [a, b] : {std::pair{&first.o, &second.o},
                        {&first.lse, &second.lse},
                        {&first.dq, &second.dq},
                        {&first.dk, &second.dk},
                        {&first.dv, &second.dv}})
      EXPECT_EQ(a->bits(length, pack.tokens), b->bits(length, pack.tokens));
    EXPECT_NE(first.o.bits(0, length), second.o.bits(0, length));
  }
}

TEST(Attention, ThreadCountDoesNotMatter) {
  AttentionCase c(raggedPack(), 4, 2, 16, DType::F32, Spacing::Dense, 9);
  setThreads(1);
  auto one = resultBits(c);
  for (int threads : {2, 3}) {
    setThreads(threads);
    EXPECT_EQ(resultBits(c), one) << threads << " threads";
  }
}
