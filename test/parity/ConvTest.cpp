//===- ConvTest.cpp - Causal convolution against its definition -*- C++ -*-===//
//
// Output, input gradient and tap gradient in float64.
//
//===----------------------------------------------------------------------===//

#include "ParityTesting.h"
#include "runtime/selfcheck/KernelBounds.h"

#include <cmath>

using namespace qwen;
using namespace qwen::parity;

namespace {

struct ConvCase {
  Pack pack;
  int64_t channels, width;
  bool accumulate = false;
  Tensor cu, x, weight, dy, y, dx, dweight;

  ConvCase(const Pack &pack, int64_t channels, int64_t width, DType dtype,
           Spacing spacing, uint64_t seed)
      : pack(pack), channels(channels), width(width), cu(pack.tensor()),
        x(dtype, rows(), spacing), weight(dtype, {channels, 1, width}),
        dy(dtype, rows(), spacing), y(dtype, rows(), spacing),
        dx(dtype, rows(), spacing),
        dweight(accumulationType(dtype), {channels, 1, width}) {
    std::mt19937_64 random(seed);
    x.uniform(random, -1, 1);
    weight.uniform(random, -1, 1);
    dy.uniform(random, -1, 1);
    for (Tensor *out : {&y, &dx, &dweight})
      out->fill(77);
  }
  std::vector<int64_t> rows() const { return {pack.tokens, channels}; }

  void forward() { launchKernel(CausalConv1dArgs{x, weight, cu, y}); }
  void backward() {
    launchKernel(
        CausalConv1dGradArgs{x, weight, dy, cu, dx, dweight, accumulate});
  }
};

struct Exact {
  Values y, dx, dweight;
  explicit Exact(const ConvCase &c)
      : y(c.y.size()), dx(c.x.size()), dweight(c.weight.size()) {
    for (int64_t d = 0; d < c.pack.documents(); ++d)
      for (int64_t t = c.pack.begin(d); t < c.pack.end(d); ++t)
        for (int64_t channel = 0; channel < c.channels; ++channel)
          element(c, c.pack.begin(d), t, channel);
  }

private:
  void element(const ConvCase &c, int64_t begin, int64_t t, int64_t channel) {
    double sum = 0;
    for (int64_t i = 0; i < c.width; ++i)
      if (t - c.width + 1 + i >= begin)
        sum += c.weight.get(channel * c.width + i) *
               c.x.get((t - c.width + 1 + i) * c.channels + channel);
    double gate = 1 / (1 + std::exp(-sum));
    y[t * c.channels + channel] = sum * gate;
    double d =
        c.dy.get(t * c.channels + channel) * (gate + sum * gate * (1 - gate));
    for (int64_t i = 0; i < c.width; ++i) {
      int64_t source = t - c.width + 1 + i;
      if (source < begin)
        continue;
      dx[source * c.channels + channel] +=
          d * c.weight.get(channel * c.width + i);
      dweight[channel * c.width + i] +=
          d * c.x.get(source * c.channels + channel);
    }
  }
};

void expectParity(ConvCase &c) {
  c.forward();
  c.backward();
  Exact exact(c);
  DType dtype = c.x.dtype();
  expectClose(c.y, exact.y, bounds::conv(dtype, c.width), "y");
  expectClose(c.dx, exact.dx, bounds::convInputGrad(dtype, c.width), "dx");
  expectClose(c.dweight, exact.dweight,
              bounds::convWeightGrad(dtype, c.pack.tokens), "dweight");
}

} // namespace

TEST(CausalConv1d, MatchesDefinitionOnRaggedPacks) {
  for (DType dtype : storageTypes)
    for (auto [channels, width] :
         {std::pair{5, 4}, {130, 4}, {3, 1}, {40, 8}, {16, 2}}) {
      ConvCase c(raggedPack(), channels, width, dtype, Spacing::Dense, 1);
      expectParity(c);
    }
}

TEST(CausalConv1d, TakesSlicesOfWiderRows) {
  for (DType dtype : storageTypes) {
    ConvCase c(packOf({300, 0, 31}, 1, 5), 20, 4, dtype, Spacing::Sliced, 2);
    expectParity(c);
  }
}

TEST(CausalConv1d, MatchesDefinitionOnRandomPacks) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 6; ++i) {
    ConvCase c(randomPack(random, 600), 7, 4, DType::F32, Spacing::Dense, 4);
    expectParity(c);
  }
}

TEST(CausalConv1d, AccumulatesTapGradients) {
  ConvCase c(raggedPack(), 9, 4, DType::F32, Spacing::Dense, 5);
  c.backward();
  Values once = c.dweight.values();
  c.accumulate = true;
  c.backward();
  for (int64_t i = 0; i < c.dweight.size(); ++i)
    EXPECT_EQ(c.dweight.get(i), 2 * once[i]);
}

TEST(CausalConv1d, GradientsMatchDifferences) {
  ConvCase c(packOf({3, 0, 20}, 1, 2), 4, 4, DType::F64, Spacing::Dense, 6);
  c.backward();
  auto loss = [&] {
    c.forward();
    return weightedSum(c.y, c.dy);
  };
  expectDifferences(c.x, c.dx, 50, double(c.y.size()), loss, "dx");
  expectDifferences(c.weight, c.dweight, 16, double(c.y.size()), loss,
                    "dweight");
}

TEST(CausalConv1d, DocumentsDoNotSeeEachOther) {
  for (int64_t length : {1, 2, 3, 4, 5, 63, 64, 65, 255, 256, 257}) {
    Pack pack = packOf({length, 100, 37}, 0, 3);
    ConvCase first(pack, 6, 4, DType::BF16, Spacing::Dense, 7);
    ConvCase second(pack, 6, 4, DType::BF16, Spacing::Dense, 7);
    for (int64_t i = 0; i < length * 6; ++i) {
      second.x.set(i, 3 - second.x.get(i));
      second.dy.set(i, 3 - second.dy.get(i));
    }
    for (ConvCase *c : {&first, &second}) {
      c->forward();
      c->backward();
    }
    EXPECT_EQ(first.y.bits(length, pack.tokens),
              second.y.bits(length, pack.tokens));
    EXPECT_EQ(first.dx.bits(length, pack.tokens),
              second.dx.bits(length, pack.tokens));
    EXPECT_NE(first.y.bits(0, length), second.y.bits(0, length));
  }
}

TEST(CausalConv1d, ThreadCountDoesNotMatter) {
  ConvCase c(raggedPack(), 200, 4, DType::F32, Spacing::Dense, 8);
  auto bits = [&] {
    c.forward();
    c.backward();
    return std::vector{c.y.bits(), c.dx.bits(), c.dweight.bits()};
  };
  setThreads(1);
  auto one = bits();
  for (int threads : {2, 3}) {
    setThreads(threads);
    EXPECT_EQ(bits(), one) << threads << " threads";
  }
}
