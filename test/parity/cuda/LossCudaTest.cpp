//===- LossCudaTest.cpp - CUDA loss and gradients against the CPU ---------===//
//
// The CPU keeps logits in float32, the card rounds them to bf16, so bounds come
// from that rounding u: exp(logit) is off by u |logit| at most, the sum of a
// row as well, and a gradient of a logit is rounded once more. A program of its
// own, as it needs a GPU:
//
//   LossCudaTest         parity, exit status 1 on a miss
//   LossCudaTest small   the same on small shapes (for sanitizers)
//
//===----------------------------------------------------------------------===//

#include "CudaTesting.h"

#include "runtime/kernels/cuda/GemmShape.h"

#include <numeric>

using namespace qwen;
using namespace qwen::cudatest;

namespace {

enum class Labels { Mixed, AllIgnored, NoneIgnored, Outside };

struct LossCase {
  int64_t tokens, hidden, vocabulary;
  bool accumulate = false;
  Tensor x, weight, labels, dnll, nll, dx, dweight;

  LossCase(int64_t tokens, int64_t hidden, int64_t vocabulary, Labels kind,
           int64_t gap, uint64_t seed)
      : tokens(tokens), hidden(hidden), vocabulary(vocabulary),
        x(DType::BF16, {tokens, hidden}, gap),
        weight(DType::BF16, {vocabulary, hidden}, gap),
        labels(DType::I32, {tokens}), dnll(DType::F32, {tokens}),
        nll(DType::F32, {tokens}), dx(DType::BF16, {tokens, hidden}, gap),
        dweight(DType::F32, {vocabulary, hidden}, gap) {
    std::mt19937_64 random(seed);
    // Logits of about 3 at most.
    double range = 2 / std::sqrt(double(hidden));
    x.uniform(random, -1, 1);
    weight.uniform(random, -range, range);
    dnll.uniform(random, 1e-4, 2e-4);
    dweight.uniform(random, -1e-3, 1e-3);
    for (int64_t t = 0; t < tokens; ++t)
      labels.set(t, label(kind, t, random));
    for (Tensor *operand : {&x, &weight, &labels, &dnll, &nll, &dx, &dweight})
      operand->toDevice();
  }
  double label(Labels kind, int64_t t, std::mt19937_64 &random) const {
    double inside = double(random() % uint64_t(vocabulary));
    switch (kind) {
    case Labels::Mixed:
      return t % 3 == 1 ? -100 : inside;
    case Labels::AllIgnored:
      return -100;
    case Labels::NoneIgnored:
      return inside;
    case Labels::Outside:
      return t % 2 ? -2000000000 : double(vocabulary + t);
    }
    return 0;
  }
  template <typename F> LinearCrossEntropyArgs forward(F at) {
    return {at(x), at(weight), at(labels), at(nll), -100, {}};
  }
  template <typename F> LinearCrossEntropyGradArgs backward(F at) {
    return {at(x),       at(weight), at(labels), at(dnll), at(nll), at(dx),
            at(dweight), -100,       accumulate, {},       {},      {}};
  }
};

/// How far the card's results may be from exact ones; see above.
struct Bounds {
  double largestLogit = 0, largestX = 0, largestWeight = 0;
  std::vector<double> ofToken; ///< sum of the errors of a token's gradients
  std::vector<double> ofEntry; ///< the same of an entry's

  explicit Bounds(const LossCase &c)
      : ofToken(size_t(c.tokens)), ofEntry(size_t(c.vocabulary)) {
    std::vector<double> logits(size_t(c.tokens * c.vocabulary));
    std::vector<float> weight = values(c.weight), x = values(c.x);
    for (int64_t t = 0; t < c.tokens; ++t)
      for (int64_t v = 0; v < c.vocabulary; ++v) {
        double &logit = logits[size_t(t * c.vocabulary + v)];
        logit = std::inner_product(&x[size_t(t * c.hidden)],
                                   &x[size_t(t * c.hidden)] + c.hidden,
                                   &weight[size_t(v * c.hidden)], 0.0);
        largestLogit = std::max(largestLogit, std::fabs(logit));
      }
    for (float value : x)
      largestX = std::max(largestX, double(std::fabs(value)));
    for (float value : weight)
      largestWeight = std::max(largestWeight, double(std::fabs(value)));
    for (int64_t t = 0; t < c.tokens; ++t)
      if (double label = c.labels.get(t); label >= 0 && label < c.vocabulary)
        addToken(c, t, &logits[size_t(t * c.vocabulary)], int64_t(label));
  }
  /// Of a loss: the rounding of logits, and sums.
  double nll(const LossCase &c) const {
    return u * largestLogit +
           2 * sumTolerance(DType::F32, double(c.hidden + c.vocabulary), 2) *
               std::max(1.0, double(c.hidden) * largestX * largestWeight);
  }
  /// Relative error of gradients in the root mean square sense: the rounding of
  /// logits, of their gradients, of the result.
  double rootMeanSquare() const {
    return u * std::sqrt((largestLogit * largestLogit + 2) / 3);
  }

private:
  static constexpr double u = 0x1p-8;

  static std::vector<float> values(const Tensor &tensor) {
    std::vector<float> all(size_t(tensor.size()));
    for (int64_t i = 0; i < tensor.size(); ++i)
      all[size_t(i)] = float(tensor.get(i));
    return all;
  }
  void addToken(const LossCase &c, int64_t t, const double *logits,
                int64_t label) {
    double sum = 0;
    for (int64_t v = 0; v < c.vocabulary; ++v)
      sum += std::exp(logits[v]);
    double ratio = std::exp(2 * u * largestLogit) - 1;
    for (int64_t v = 0; v < c.vocabulary; ++v) {
      double p = std::exp(logits[v]) / sum;
      double error = std::fabs(c.dnll.get(t)) *
                     (p * ratio + u * std::fabs(p - (v == label)));
      ofToken[size_t(t)] += error;
      ofEntry[size_t(v)] += error;
    }
  }
};

/// Compares element (i, j) within bound(i) and the roundings of sums and of the
/// result, and all of them in the root mean square sense.
template <typename F>
void expectWithin(const char *name, const Tensor &tensor, F &&bound,
                  double sums, double rootMeanSquare) {
  std::vector<uint8_t> bytes = tensor.deviceBytes();
  int64_t columns = tensor.type.rank > 1 ? tensor.type.dim(1) : 1;
  double magnitude = 0, worst = 0, error = 0, norm = 0;
  for (int64_t i = 0; i < tensor.size(); ++i)
    magnitude = std::max(magnitude, std::fabs(tensor.get(i)));
  for (int64_t i = 0; i < tensor.size(); ++i) {
    double expected = tensor.get(i), found = tensor.get(bytes, i);
    double limit =
        bound(i / columns) +
        2 * resultTolerance(tensor.type.dtype, sums, magnitude, expected);
    double distance = std::fabs(found - expected);
    if (!(distance <= limit)) // a NaN is a miss too
      worst = std::max(worst, distance / limit > 0 ? distance / limit : 1e300);
    error += distance * distance;
    norm += expected * expected;
  }
  double relative = std::sqrt(error / std::max(norm, 1e-30));
  std::printf(" %s %.1e", name, relative);
  report(name, "is outside its bound", worst == 0, worst);
  report(name, "is outside its root mean square bound",
         relative <= rootMeanSquare, relative);
  report(name, "was written between rows", tensor.gapsEqual(bytes));
}

void testLoss(int64_t tokens, int64_t hidden, int64_t vocabulary, Labels kind,
              int64_t gap, uint64_t seed) {
  LossCase c(tokens, hidden, vocabulary, kind, gap, seed);
  Bounds bounds(c);
  std::printf("%ld x %ld x %ld, labels %d:", long(tokens), long(hidden),
              long(vocabulary), int(kind));
  double forward = sumTolerance(DType::F32, double(hidden + vocabulary), 2);
  double backward =
      sumTolerance(DType::F32, double(hidden + vocabulary + tokens), 4);
  auto ofLoss = [&](int64_t) { return bounds.nll(c); };
  runOnCpu(c.forward(onHost));
  runOnGpu(c.forward(onDevice));
  expectWithin("nll", c.nll, ofLoss, forward, 1);
  auto alone = c.nll.deviceBytes();
  for (bool accumulate : {true, false}) {
    c.accumulate = accumulate;
    c.dweight.toDevice();
    runOnCpu(c.backward(onHost));
    runOnGpu(c.backward(onDevice));
    report("nll", "of the gradient differs from the loss's",
           c.nll.deviceBytes() == alone);
    expectWithin(
        "dx", c.dx,
        [&](int64_t t) { return bounds.largestWeight * bounds.ofToken[t]; },
        backward, bounds.rootMeanSquare());
    expectWithin(
        "dweight", c.dweight,
        [&](int64_t v) { return bounds.largestX * bounds.ofEntry[v]; },
        backward, bounds.rootMeanSquare());
  }
  expectRerunEqual("gradients", c.backward(onDevice),
                   {&c.nll, &c.dx, &c.dweight});
  std::printf("\n");
}

/// Ignored tokens: losses and gradients are exact zeros, what dweight holds
/// stays.
void testIgnored(Labels kind) {
  LossCase c(70, 64, 300, kind, 8, 9);
  c.accumulate = true;
  auto before = c.dweight.deviceBytes();
  runOnGpu(c.backward(onDevice));
  report("dweight", "of ignored tokens changed",
         c.dweight.deviceBytes() == before);
  for (Tensor *zero : {&c.nll, &c.dx}) {
    auto bytes = zero->deviceBytes();
    bool zeros = true;
    for (int64_t i = 0; i < zero->size(); ++i)
      zeros = zeros && zero->get(bytes, i) == 0;
    report("ignored tokens", "have losses or gradients", zeros);
  }
  c.accumulate = false;
  runOnGpu(c.backward(onDevice));
  auto bytes = c.dweight.deviceBytes();
  bool zeros = true;
  for (int64_t i = 0; i < c.dweight.size(); ++i)
    zeros = zeros && c.dweight.get(bytes, i) == 0;
  report("dweight", "of ignored tokens is not zero", zeros);
}

/// Tokens in another order have the same losses and gradients, to the bit.
void testPlaces(int64_t tokens, int64_t hidden, int64_t vocabulary) {
  LossCase c(tokens, hidden, vocabulary, Labels::Mixed, 0, 10);
  runOnGpu(c.backward(onDevice));
  auto nll = c.nll.deviceBytes(), dx = c.dx.deviceBytes();
  LossCase reversed(tokens, hidden, vocabulary, Labels::Mixed, 0, 10);
  for (int64_t t = 0; t < tokens; ++t) {
    int64_t place = tokens - 1 - t;
    reversed.labels.set(place, c.labels.get(t));
    reversed.dnll.set(place, c.dnll.get(t));
    for (int64_t i = 0; i < hidden; ++i)
      reversed.x.set(place * hidden + i, c.x.get(t * hidden + i));
  }
  for (Tensor *operand : {&reversed.labels, &reversed.dnll, &reversed.x})
    operand->toDevice();
  runOnGpu(reversed.backward(onDevice));
  auto newNll = reversed.nll.deviceBytes(), newDx = reversed.dx.deviceBytes();
  bool same = true;
  for (int64_t t = 0; t < tokens; ++t) {
    int64_t place = tokens - 1 - t;
    same = same && c.nll.get(nll, t) == c.nll.get(newNll, place);
    for (int64_t i = 0; i < hidden; ++i)
      same = same && c.dx.get(dx, t * hidden + i) ==
                         c.dx.get(newDx, place * hidden + i);
  }
  report("loss", "depends on the place of a token", same);
}

/// A pack of two blocks gives the bits of its halves.
void testBlocks() {
  constexpr int64_t hidden = 64, vocabulary = 248320;
  LossCase whole(4352, hidden, vocabulary, Labels::Mixed, 0, 11);
  cuda::LossBlocks blocks(whole.x.type, whole.weight.type);
  report("blocks", "are not two", blocks.rows * 2 == whole.tokens,
         double(blocks.rows));
  runOnGpu(whole.backward(onDevice));
  auto dx = whole.dx.deviceBytes(), nll = whole.nll.deviceBytes();
  auto dweight = whole.dweight.deviceBytes();
  whole.dweight.poisonDevice();
  bool same = true;
  for (int64_t first : {int64_t(0), blocks.rows}) {
    LinearCrossEntropyGradArgs args = whole.backward(onDevice);
    auto cut = [&](auto &operand) {
      operand.shape[0] = blocks.rows;
      int64_t bytes = first * operand.strides[0] * dtypeBytes(operand.dtype);
      using Pointer = decltype(operand.data);
      using Byte =
          std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>,
                             const char, char>;
      operand.data = static_cast<Byte *>(operand.data) + bytes;
    };
    cut(args.x);
    cut(args.labels);
    cut(args.dnll);
    cut(args.nll);
    cut(args.dx);
    args.accumulate = first > 0;
    runOnGpu(args);
  }
  same = whole.dx.deviceBytes() == dx && whole.nll.deviceBytes() == nll &&
         whole.dweight.deviceBytes() == dweight;
  report("blocks", "differ from launches of their own", same);
}

/// Logits of +-1e4, and a label that all others are far below.
void testLargeLogits() {
  LossCase c(8, 8, 1000, Labels::NoneIgnored, 0, 12);
  for (int64_t i = 0; i < c.x.size(); ++i)
    c.x.set(i, c.x.get(i) > 0 ? 1280 : -1280);
  for (int64_t v = 0; v < c.vocabulary; ++v)
    for (int64_t i = 0; i < c.hidden; ++i)
      c.weight.set(v * c.hidden + i, v % 2 ? 1 : -1);
  c.x.toDevice();
  c.weight.toDevice();
  // Products of these are exact in bf16: multiples of 2560 up to 10,240.
  runOnCpu(c.backward(onHost));
  runOnGpu(c.backward(onDevice));
  double sums = sumTolerance(DType::F32, 1008, 2);
  std::printf("large logits:");
  expectWithin("nll", c.nll, [](int64_t) { return 0.0; }, sums, 1e-5);
  // Gradients of logits are rounded to bf16; those of a token add up to twice
  // its dnll at most.
  expectWithin(
      "dx", c.dx, [](int64_t) { return 2 * 2e-4 * 0x1p-8; }, sums, HUGE_VAL);
  std::printf("\n");
}

} // namespace

int main(int argc, char **argv) {
  requireGpu();
  bool small = argc > 1 && std::strcmp(argv[1], "small") == 0;
  uint64_t seed = 1;
  for (Labels kind : {Labels::Mixed, Labels::NoneIgnored}) {
    testLoss(1, 128, 256, Labels::NoneIgnored, 0, seed++);
    testLoss(37, 128, 264, kind, 8, seed++);
    testLoss(65, 40, 1001, kind, 0, seed++);
    if (small)
      continue;
    testLoss(200, 256, 2048, kind, 0, seed++);
    testLoss(33, 64, 40003, kind, 16, seed++);
    testLoss(12, 32, 100000, kind, 0, seed++);
    testLoss(12, 32, 248320, kind, 0, seed++);
  }
  testIgnored(Labels::AllIgnored);
  testIgnored(Labels::Outside);
  testPlaces(small ? 45 : 700, 64, small ? 520 : 5000);
  testLargeLogits();
  if (!small)
    testBlocks();
  return summary();
}
