//===- OptimizerTest.cpp - Groups, gradient norm and AdamW -----*- C++ -*-===//
//
// Column sums of groups; the optimizer against its formula in float64; the
// statistics of stochastic rounding.
//
//===----------------------------------------------------------------------===//

#include "ParityTesting.h"

#include <cmath>
#include <limits>

using namespace qwen;
using namespace qwen::parity;

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

namespace {

constexpr int64_t groupWidth = 5;

/// A stand-in for generated code: y = 2 x, column sums of x and of x^2.
void doubleRows(void *const *operands, void *partials, int64_t begin,
                int64_t end) {
  auto *x = static_cast<const float *>(operands[0]);
  auto *y = static_cast<float *>(operands[1]);
  auto *sums = static_cast<float *>(partials);
  std::fill(sums, sums + 2 * groupWidth, 0.0f);
  for (int64_t i = begin * groupWidth; i < end * groupWidth; ++i) {
    y[i] = 2 * x[i];
    sums[i % groupWidth] += x[i];
    sums[groupWidth + i % groupWidth] += x[i] * x[i];
  }
}

} // namespace

TEST(Group, RunsBlocksAndAddsColumnSums) {
  constexpr int64_t rows = 103, block = 10;
  std::mt19937_64 random(1);
  Tensor x(DType::F32, {rows, groupWidth}), y(DType::F32, {rows, groupWidth});
  Tensor sums(DType::F32, {groupWidth}), squares(DType::F32, {groupWidth});
  x.uniform(random, -1, 1);
  std::vector<uint8_t> one;
  for (int threads : {1, 2, 3}) {
    setThreads(threads);
    sums.fill(100);
    squares.fill(100);
    launchKernel(GroupArgs{{x},
                           {y, sums, squares},
                           "doubleRows",
                           rows,
                           block,
                           {1, 2},
                           {2},
                           15},
                 doubleRows);
    Values exactSums(groupWidth), exactSquares(groupWidth, 100.0);
    for (int64_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(y.get(i), 2 * x.get(i));
      exactSums[i % groupWidth] += x.get(i);
      exactSquares[i % groupWidth] += x.get(i) * x.get(i);
    }
    expectClose(sums, exactSums, sumTolerance(DType::F32, rows), "sums", rows);
    expectClose(squares, exactSquares, sumTolerance(DType::F32, rows),
                "squares");
    auto bits = squares.bits();
    if (one.empty())
      one = bits;
    EXPECT_EQ(bits, one);
  }
}

//===----------------------------------------------------------------------===//
// Gradient norm
//===----------------------------------------------------------------------===//

namespace {

struct Hyper {
  double lr = 1e-2, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weightDecay = 0.1,
         maxGradNorm = 1;
  int step = 3;

  Tensor tensor(DType dtype) const {
    Tensor hyper(dtype, {8});
    hyper.setValues({lr, 1 - beta1, 1 - beta2, eps, weightDecay, maxGradNorm,
                     1 - std::pow(beta1, step), 1 - std::pow(beta2, step)});
    return hyper;
  }
};

} // namespace

TEST(GradNorm, IsTheNormOfAllTensors) {
  std::mt19937_64 random(2);
  Tensor a(DType::F32, {70000}), b(DType::F32, {3, 7}), c(DType::F64, {11});
  double squares = 0;
  for (Tensor *grad : {&a, &b, &c}) {
    grad->uniform(random, -1, 1);
    for (double value : grad->values())
      squares += value * value;
  }
  for (double limit : {0.5, 1e6, 0.0}) {
    Hyper h;
    h.maxGradNorm = limit;
    Tensor hyper = h.tensor(DType::F64), stats(DType::F64, {4});
    std::vector<uint8_t> one;
    for (int threads : {1, 2, 3}) {
      setThreads(threads);
      launchKernel(GradNormArgs{{a, b, c}, hyper, stats});
      double norm = std::sqrt(squares);
      double clip = limit > 0 ? std::min(1.0, limit / (norm + 1e-6)) : 1;
      double bound = sumTolerance(DType::F64, 70032);
      EXPECT_NEAR(stats.get(0), norm, bound * norm);
      EXPECT_NEAR(stats.get(1), clip, bound * clip);
      EXPECT_EQ(stats.get(2), 1);
      EXPECT_EQ(stats.get(3), 0);
      auto bits = stats.bits();
      if (one.empty())
        one = bits;
      EXPECT_EQ(bits, one);
    }
  }
}

TEST(GradNorm, ReportsNumbersThatAreNotFinite) {
  for (double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    Tensor grad(DType::F32, {100}), hyper = Hyper().tensor(DType::F32);
    Tensor stats(DType::F32, {4});
    grad.set(57, bad);
    launchKernel(GradNormArgs{{grad}, hyper, stats});
    EXPECT_EQ(stats.get(2), 0);
  }
}

/// Two ranks that hold the gradients by parts.
TEST(GradNorm, OfSeveralRanksIsThatOfOne) {
  std::mt19937_64 random(5);
  Tensor a(DType::F32, {70000}), b(DType::F32, {3000});
  a.uniform(random, -1, 1);
  b.uniform(random, -1, 1);
  Hyper h;
  h.maxGradNorm = 0.5;
  Tensor hyper = h.tensor(DType::F32), whole(DType::F32, {4});
  launchKernel(GradNormArgs{{a, b}, hyper, whole});
  Tensor partials(DType::F64, {2});
  int rank = 0;
  for (Tensor *grad : {&a, &b}) {
    Tensor partial(DType::F64, {1});
    launchKernel(GradNormLocalArgs{{*grad}, partial});
    partials.set(rank++, partial.get(0));
  }
  Tensor stats(DType::F32, {4});
  launchKernel(GradNormCombineArgs{partials, hyper, stats});
  double bound = sumTolerance(DType::F64, 73000) + unitRoundoff(DType::F32);
  for (int i : {0, 1})
    EXPECT_NEAR(stats.get(i), whole.get(i), bound * whole.get(i));
  EXPECT_EQ(stats.get(2), 1);
  EXPECT_EQ(stats.get(3), 0);
  partials.set(1, std::nan(""));
  launchKernel(GradNormCombineArgs{partials, hyper, stats});
  EXPECT_EQ(stats.get(2), 0);
}

/// A bf16 gradient counts as the float32 one of its values.
TEST(GradNorm, ReadsNarrowGradientsExactly) {
  std::mt19937_64 random(6);
  Tensor narrow(DType::BF16, {70001}), wide(DType::F32, {70001});
  narrow.uniform(random, -1, 1);
  wide.setValues(narrow.values());
  Tensor ofNarrow(DType::F64, {1}), ofWide(DType::F64, {1});
  launchKernel(GradNormLocalArgs{{narrow}, ofNarrow});
  launchKernel(GradNormLocalArgs{{wide}, ofWide});
  EXPECT_GT(ofWide.get(0), 0);
  EXPECT_EQ(ofNarrow.bits(), ofWide.bits());
}

//===----------------------------------------------------------------------===//
// AdamW
//===----------------------------------------------------------------------===//

namespace {

/// One tensor and its states.
struct AdamWCase {
  Hyper h;
  bool decay = true;
  double clip = 0.5, finite = 1;
  int32_t seed = 1, step = 3;
  int64_t tensorId = 4;
  Tensor param, grad, moment1, moment2, master;
  bool useMaster;

  AdamWCase(DType paramType, DType momentType, bool useMaster,
            int64_t elements = 1000)
      : param(paramType, {elements}),
        grad(accumulationType(paramType), {elements}),
        moment1(momentType, {elements}), moment2(momentType, {elements}),
        master(accumulationType(paramType), {elements}), useMaster(useMaster) {
    std::mt19937_64 random(3);
    param.uniform(random, -1, 1);
    grad.uniform(random, -1, 1);
    moment1.uniform(random, -1, 1);
    moment2.uniform(random, 0, 1);
    master.setValues(param.values());
  }
  void run() {
    DType wide = accumulationType(param.dtype());
    Tensor hyper = h.tensor(wide), stats(wide, {4});
    stats.setValues({1, clip, finite, 0});
    Tensor rng(DType::I32, {2});
    rng.setValues({double(seed), double(step)});
    AdamWArgs args{{param}, {grad}, {moment1}, {moment2},  {},
                   hyper,   stats,  rng,       {tensorId}, decay};
    if (useMaster)
      args.masters.push_back(master);
    launchKernel(args);
  }
};

/// The .td's formula in float64.
struct AdamWExact {
  Values param, moment1, moment2;
  explicit AdamWExact(const AdamWCase &c)
      : param(c.param.size()), moment1(c.param.size()),
        moment2(c.param.size()) {
    double bias1 = 1 - std::pow(c.h.beta1, c.h.step);
    double bias2 = 1 - std::pow(c.h.beta2, c.h.step);
    for (int64_t i = 0; i < c.param.size(); ++i) {
      double g = c.clip * c.grad.get(i);
      double p = c.useMaster ? c.master.get(i) : c.param.get(i);
      if (c.decay)
        p *= 1 - c.h.lr * c.h.weightDecay;
      moment1[i] = c.h.beta1 * c.moment1.get(i) + (1 - c.h.beta1) * g;
      moment2[i] = c.h.beta2 * c.moment2.get(i) + (1 - c.h.beta2) * g * g;
      param[i] = p - c.h.lr / bias1 * moment1[i] /
                         (std::sqrt(moment2[i]) / std::sqrt(bias2) + c.h.eps);
    }
  }
};

} // namespace

TEST(AdamW, MatchesItsFormula) {
  for (auto [paramType, useMaster] : {std::pair{DType::F32, false},
                                      {DType::F32, true},
                                      {DType::F64, false},
                                      {DType::BF16, true}})
    for (bool decay : {false, true}) {
      DType wide = accumulationType(paramType);
      AdamWCase c(paramType, wide, useMaster);
      c.decay = decay;
      AdamWExact exact(c);
      auto grad = c.grad.bits();
      c.run();
      // A dozen roundings of numbers of the size of the result.
      double bound = sumTolerance(wide, 4);
      expectClose(c.moment1, exact.moment1, bound, "m");
      expectClose(c.moment2, exact.moment2, bound, "v");
      expectClose(c.param, exact.param, bound, "p");
      if (useMaster)
        expectClose(c.master, exact.param, bound, "master");
      EXPECT_EQ(c.grad.bits(), grad);
    }
}

TEST(AdamW, ReadsNarrowGradientsExactly) {
  for (auto [paramType, momentType] : {std::pair{DType::BF16, DType::BF16},
                                       {DType::BF16, DType::F32},
                                       {DType::F32, DType::F32}}) {
    AdamWCase narrow(paramType, momentType, false);
    Tensor rounded(DType::BF16, {narrow.grad.size()});
    rounded.setValues(narrow.grad.values());
    AdamWCase wide(paramType, momentType, false);
    wide.grad.setValues(rounded.values());
    narrow.grad = rounded;
    auto before = wide.param.bits();
    narrow.run();
    wide.run();
    EXPECT_NE(wide.param.bits(), before);
    EXPECT_EQ(narrow.param.bits(), wide.param.bits());
    EXPECT_EQ(narrow.moment1.bits(), wide.moment1.bits());
    EXPECT_EQ(narrow.moment2.bits(), wide.moment2.bits());
  }
}

TEST(AdamW, AveragesWithAllDigitsOfOneMinusBeta) {
  AdamWCase c(DType::F32, DType::F32, false);
  c.h.beta2 = 0.999;
  c.h.step = 1;
  c.moment1.setValues(Values(c.moment1.size(), 0.0));
  c.moment2.setValues(Values(c.moment2.size(), 0.0));
  AdamWExact exact(c);
  c.run();
  for (int64_t i = 0; i < c.param.size(); ++i) {
    // Roundings of 1 - beta, of the clipped gradient and of three products.
    double bound = sumTolerance(DType::F32, 5);
    EXPECT_NEAR(c.moment1.get(i), exact.moment1[i],
                bound * std::fabs(exact.moment1[i]));
    EXPECT_NEAR(c.moment2.get(i), exact.moment2[i], bound * exact.moment2[i]);
  }
}

TEST(AdamW, KeepsEverythingWhereTheNormIsNotFinite) {
  AdamWCase c(DType::F32, DType::F32, false);
  auto before = std::vector{c.param.bits(), c.moment1.bits(), c.moment2.bits()};
  c.finite = 0;
  c.clip = std::nan("");
  c.grad.set(5, std::nan(""));
  c.run();
  EXPECT_EQ((std::vector{c.param.bits(), c.moment1.bits(), c.moment2.bits()}),
            before);
}

TEST(AdamW, NothingMovesAtLearningRateZero) {
  for (DType dtype : storageTypes) {
    AdamWCase c(dtype, accumulationType(dtype), false);
    c.h.lr = 0;
    auto before = c.param.bits();
    c.run();
    EXPECT_EQ(c.param.bits(), before);
  }
}

TEST(AdamW, RoundsStochasticallyWithoutBias) {
  constexpr int64_t n = 40000;
  AdamWCase c(DType::BF16, DType::BF16, false, n);
  AdamWExact exact(c);
  c.run();
  double total = 0, largest = 0;
  int64_t up = 0;
  for (int64_t i = 0; i < n; ++i) {
    double error = c.param.get(i) - exact.param[i];
    // Either neighbour, so within a whole step of twice the unit roundoff.
    double step = 2 * unitRoundoff(DType::BF16) *
                  std::max(std::fabs(exact.param[i]), 0x1p-126);
    EXPECT_LE(std::fabs(error), step);
    total += error;
    largest = std::max(largest, step);
    up += error > 0;
  }
  // Six standard deviations of a sum of errors within one step.
  EXPECT_LE(std::fabs(total), 6 * std::sqrt(double(n)) * largest);
  EXPECT_NEAR(double(up), n / 2.0, 6 * std::sqrt(double(n)));
}

TEST(AdamW, RoundingDependsOnSeedStepTensorAndElementAlone) {
  auto bits = [](int32_t seed, int32_t step, int64_t tensor, int threads) {
    setThreads(threads);
    AdamWCase c(DType::BF16, DType::BF16, false, 20000);
    c.seed = seed;
    c.step = step;
    c.tensorId = tensor;
    c.run();
    return std::vector{c.param.bits(), c.moment1.bits(), c.moment2.bits()};
  };
  auto first = bits(1, 2, 3, 1);
  EXPECT_EQ(bits(1, 2, 3, 2), first);
  EXPECT_EQ(bits(1, 2, 3, 3), first);
  EXPECT_NE(bits(2, 2, 3, 1), first);
  EXPECT_NE(bits(1, 3, 3, 1), first);
  EXPECT_NE(bits(1, 2, 4, 1), first);
}

/// A rank that holds no part of a class, and parts that begin anywhere.
TEST(AdamW, PartsOfATensorRoundAsTheWhole) {
  auto bits = [](std::vector<int64_t> ends) {
    AdamWCase c(DType::BF16, DType::BF16, false, 20000);
    Tensor hyper = c.h.tensor(DType::F32), stats(DType::F32, {4});
    stats.setValues({1, 0.5, 1, 0});
    Tensor rng(DType::I32, {2});
    rng.setValues({7, 3});
    AdamWArgs args;
    args.hyper = hyper;
    args.stats = stats;
    args.rng = rng;
    int64_t begin = 0;
    for (int64_t end : ends) {
      auto part = [&](const Tensor &tensor) {
        Buffer buffer = tensor;
        buffer.shape[0] = end - begin;
        buffer.data = static_cast<std::byte *>(buffer.data) +
                      begin * dtypeBytes(buffer.dtype);
        return buffer;
      };
      args.params.push_back(part(c.param));
      args.grads.push_back(part(c.grad));
      args.moments1.push_back(part(c.moment1));
      args.moments2.push_back(part(c.moment2));
      args.tensorIds.push_back(4);
      args.firstElements.push_back(begin);
      begin = end;
    }
    launchKernel(args);
    return std::vector{c.param.bits(), c.moment1.bits(), c.moment2.bits()};
  };
  auto whole = bits({20000});
  EXPECT_EQ(bits({7777, 20000}), whole);
  EXPECT_EQ(bits({64, 8191, 8193, 20000}), whole);
}
