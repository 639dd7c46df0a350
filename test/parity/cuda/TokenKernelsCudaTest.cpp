//===- TokenKernelsCudaTest.cpp - CUDA row kernels against the CPU --------===//
//
// The convolution and its gradients, embedding and its gradient, angles, fill
// and copy on random ragged packs, with strided operands; rows outside
// documents, outputs and gaps are poisoned with NaN. A program of its own, as
// it needs a GPU:
//
//   TokenKernelsCudaTest         parity, exit status 1 on a miss
//   TokenKernelsCudaTest small   the same on small shapes (for sanitizers)
//
//===----------------------------------------------------------------------===//

#include "CudaTesting.h"
#include "runtime/selfcheck/KernelBounds.h"

#include <cmath>

using namespace qwen;
using namespace qwen::cudatest;

//===----------------------------------------------------------------------===//
// Convolution
//===----------------------------------------------------------------------===//

namespace {

struct ConvCase {
  Pack pack;
  int64_t channels;
  bool accumulate = false;
  Tensor cu, x, weight, dy, y, dx, dweight;

  ConvCase(const Pack &pack, int64_t channels, DType dtype, int64_t gap,
           uint64_t seed)
      : pack(pack), channels(channels), cu(DType::I32, {pack.slots()}),
        x(dtype, {pack.tokens, channels}, gap), weight(dtype, {channels, 1, 4}),
        dy(dtype, {pack.tokens, channels}, gap),
        y(dtype, {pack.tokens, channels}, gap),
        dx(dtype, {pack.tokens, channels}, gap),
        dweight(DType::F32, {channels, 1, 4}) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> unit(-1, 1);
    for (int64_t i = 0; i < pack.total() * channels; ++i) {
      x.set(i, unit(random));
      dy.set(i, unit(random));
    }
    weight.uniform(random, -1, 1);
    dweight.uniform(random, -1, 1);
    pack.write(cu);
    for (Tensor *operand : {&x, &weight, &dy, &y, &dx, &dweight})
      operand->toDevice();
  }
  template <typename F> CausalConv1dArgs forward(F at) {
    return {at(x), at(weight), at(cu), at(y)};
  }
  template <typename F> CausalConv1dGradArgs backward(F at) {
    return {at(x), at(weight), at(dy), at(cu), at(dx), at(dweight), accumulate};
  }
};

void testConv(const Pack &pack, int64_t channels, DType dtype, int64_t gap,
              uint64_t seed) {
  ConvCase c(pack, channels, dtype, gap, seed);
  runOnCpu(c.forward(onHost));
  runOnGpu(c.forward(onDevice));
  expectClose("y", c.y, bounds::conv(dtype, 4));
  expectRerunEqual("y", c.forward(onDevice), {&c.y});

  for (bool accumulate : {true, false}) {
    c.accumulate = accumulate;
    c.dweight.toDevice();
    runOnCpu(c.backward(onHost));
    runOnGpu(c.backward(onDevice));
    expectClose("dx", c.dx, bounds::convInputGrad(dtype, 4));
    expectClose("dweight", c.dweight,
                bounds::convWeightGrad(dtype, pack.tokens));
  }
  expectRerunEqual("gradients", c.backward(onDevice), {&c.dx, &c.dweight});
}

/// A document of NaNs must change no bit of the others.
void testConvIsolation() {
  Pack pack({70, 3, 1, 2, 190, 64, 5}, 1, 9);
  for (int64_t document = 0; document < 7; ++document) {
    ConvCase c(pack, 64, DType::BF16, 16, 5);
    runOnGpu(c.forward(onDevice));
    runOnGpu(c.backward(onDevice));
    auto y = c.y.deviceBytes(), dx = c.dx.deviceBytes();
    int64_t begin = pack.boundaries[document] * c.channels;
    int64_t end = pack.boundaries[document + 1] * c.channels;
    for (int64_t i = begin; i < end; ++i) {
      c.x.set(i, std::nan(""));
      c.dy.set(i, std::nan(""));
    }
    c.x.toDevice();
    c.dy.toDevice();
    runOnGpu(c.forward(onDevice));
    runOnGpu(c.backward(onDevice));
    auto newY = c.y.deviceBytes(), newDx = c.dx.deviceBytes();
    bool same = true;
    for (int64_t i = 0; i < c.y.size(); ++i)
      if (i < begin || i >= end)
        same = same && c.y.get(newY, i) == c.y.get(y, i) &&
               c.dx.get(newDx, i) == c.dx.get(dx, i);
      else
        same = same && std::isnan(c.y.get(newY, i));
    report("convolution", "reads other documents", same, double(document));
  }
}

void testConvolution(bool small) {
  std::mt19937_64 random(1);
  const Pack packs[] = {
      Pack({1, 2, 3, 4, 5}, 3, 2),
      Pack({63, 64, 65}, 0, 0),
      Pack({0, 127, 128, 129, 0, 1, 0}, 4, 15),
      Pack({31, 1, 32, 33, 159, 256, 3, 255}, 200, 70),
      Pack({512}, 0, 0),
      Pack({}, 2, 40),
  };
  uint64_t seed = 1;
  for (const Pack &pack : packs)
    for (DType dtype : {DType::BF16, DType::F32})
      for (int64_t gap : {0, 16}) {
        testConv(pack, 64, dtype, gap, seed++);
        if (!small)
          testConv(pack, 1096, dtype, gap, seed++);
      }
  for (int i = 0; i < (small ? 1 : 6); ++i) {
    std::vector<int> lengths;
    for (int left = 600; left > 0; left -= lengths.back())
      lengths.push_back(std::min<int>(left, random() % (i % 2 ? 6 : 150)));
    testConv(Pack(lengths, random() % 3, random() % 40), 136, DType::BF16, 16,
             seed++);
  }
  testConvIsolation();
}

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

/// How ids are drawn.
enum class Ids { Random, Equal, Distinct, Outside };

void testEmbedding(int64_t tokens, int64_t rows, int64_t width, DType dtype,
                   int64_t gap, Ids kind, uint64_t seed) {
  std::mt19937_64 random(seed);
  Tensor table(dtype, {rows, width}, gap), ids(DType::I32, {tokens});
  Tensor out(dtype, {tokens, width}, gap), dout(dtype, {tokens, width}, gap);
  Tensor dtable(DType::F32, {rows, width}, gap);
  table.uniform(random, -1, 1);
  dout.uniform(random, -1, 1);
  dtable.uniform(random, -1, 1);
  for (int64_t t = 0; t < tokens; ++t) {
    int64_t id = int64_t(random() % uint64_t(rows));
    if (kind == Ids::Equal)
      id = rows / 2;
    if (kind == Ids::Distinct)
      id = (t * 7) % rows;
    if (kind == Ids::Outside && t % 3 == 0)
      id = t % 2 ? -1 - t : rows + t;
    ids.set(t, double(id));
  }
  for (Tensor *operand : {&table, &ids, &out, &dout, &dtable})
    operand->toDevice();
  auto forward = [&](auto at) {
    return EmbeddingArgs{at(table), at(ids), at(out)};
  };
  runOnCpu(forward(onHost));
  runOnGpu(forward(onDevice));
  expectSameBits("embedding", out);
  for (bool accumulate : {true, false}) {
    auto backward = [&](auto at) {
      return EmbeddingGradArgs{at(dout), at(ids), at(dtable), accumulate};
    };
    runOnCpu(backward(onHost));
    runOnGpu(backward(onDevice));
    expectSameBits("embedding gradient", dtable);
    if (!accumulate)
      expectRerunEqual("embedding gradient", backward(onDevice), {&dtable});
  }
}

void testEmbeddings(bool small) {
  uint64_t seed = 1;
  for (Ids kind : {Ids::Random, Ids::Equal, Ids::Distinct, Ids::Outside})
    for (DType dtype : {DType::BF16, DType::F32}) {
      testEmbedding(1, 7, 8, dtype, 0, kind, seed++);
      testEmbedding(67, 50, 24, dtype, 16, kind, seed++);
      if (!small) {
        testEmbedding(1000, 300, 1032, dtype, 16, kind, seed++);
        testEmbedding(2049, 2500, 64, dtype, 0, kind, seed++);
      }
    }
}

/// A table of which a rank holds `held` elements of a flat sequence, beginning
/// `begin` elements before the table or, negative, inside of it.
void testShard(int64_t tokens, int64_t rows, int64_t width, int64_t held,
               int64_t begin, DType dtype, DType gradient, uint64_t seed) {
  std::mt19937_64 random(seed);
  Tensor shard(dtype, {held}), ids(DType::I32, {tokens});
  Tensor out(DType::F32, {tokens, width}), dout(dtype, {tokens, width});
  Tensor dshard(gradient, {held});
  for (Tensor *operand : {&shard, &dout, &dshard})
    operand->uniform(random, -1, 1);
  for (int64_t t = 0; t < tokens; ++t)
    ids.set(t, double(int64_t(random() % uint64_t(rows + 2)) - 1));
  for (Tensor *operand : {&shard, &ids, &out, &dout, &dshard})
    operand->toDevice();
  auto forward = [&](auto at) {
    return EmbeddingShardArgs{at(shard), at(ids), at(out), begin, rows};
  };
  runOnCpu(forward(onHost));
  runOnGpu(forward(onDevice));
  expectSameBits("embedding shard", out);
  for (bool accumulate : {true, false}) {
    auto backward = [&](auto at) {
      return EmbeddingGradShardArgs{at(dout), at(ids), at(dshard),
                                    begin,    rows,    accumulate};
    };
    runOnCpu(backward(onHost));
    runOnGpu(backward(onDevice));
    expectSameBits("embedding gradient shard", dshard);
    if (!accumulate)
      expectRerunEqual("embedding gradient shard", backward(onDevice),
                       {&dshard});
  }
}

void testShards(bool small) {
  uint64_t seed = 1;
  for (DType dtype : {DType::BF16, DType::F32})
    for (DType gradient : {DType::BF16, DType::F32}) {
      // All of it, the beginning, the middle, the end, nothing.
      testShard(67, 9, 24, 9 * 24, 0, dtype, gradient, seed++);
      for (int64_t begin : {64, 0, -40, -104, -200, -512})
        testShard(67, 9, 24, 64, begin, dtype, gradient, seed++);
      if (!small) {
        testShard(4100, 600, 1032, 64 * 1000, -64 * 3001, dtype, gradient,
                  seed++);
        testShard(3, 2500, 64, 64 * 900, -64 * 1201, dtype, gradient, seed++);
      }
    }
}

//===----------------------------------------------------------------------===//
// Angles, fill, copy
//===----------------------------------------------------------------------===//

void testAngles() {
  constexpr int64_t tokens = 700, width = 64;
  Tensor positions(DType::I32, {tokens});
  Tensor angles(DType::F32, {tokens, width}, 6);
  for (int64_t t = 0; t < tokens; ++t)
    positions.set(t, double(t < 300 ? t : (t - 300) * 2621));
  positions.toDevice();
  auto args = [&](auto at) {
    return RopeAnglesArgs{at(positions), at(angles), 1e7};
  };
  runOnCpu(args(onHost));
  runOnGpu(args(onDevice));
  // The same float32 angles; float64 cos and sin differ by less than its
  // rounding to float32.
  expectClose("angles", angles, 0);
  expectRerunEqual("angles", args(onDevice), {&angles});
}

void testFillAndCopy() {
  const std::vector<int64_t> shapes[] = {{},      {1},           {7},
                                         {8},     {100003},      {70, 5, 300},
                                         {33, 9}, {3, 2, 5, 16}, {400, 4096}};
  std::mt19937_64 random(2);
  for (DType dtype : {DType::F32, DType::BF16, DType::F64, DType::I32})
    for (const std::vector<int64_t> &shape : shapes)
      for (int64_t gap : {0, 3, 16}) {
        if (shape.empty() && gap)
          continue;
        Tensor in(dtype, shape, gap), same(dtype, shape, gap);
        Tensor dense(dtype, shape), filled(dtype, shape, gap);
        in.uniform(random, -1000, 1000);
        in.toDevice();
        for (Tensor *out : {&same, &dense}) {
          runOnCpu(CopyArgs{in.onHost(), out->onHost()});
          runOnGpu(CopyArgs{in.onDevice(), out->onDevice()});
          expectSameBits("copy", *out);
        }
        runOnCpu(FillArgs{filled.onHost(), 3});
        runOnGpu(FillArgs{filled.onDevice(), 3});
        expectSameBits("fill", filled);
      }
  Tensor in(DType::F32, {50, 40}), out(DType::F32, {40, 50});
  in.uniform(random, -1, 1);
  in.toDevice();
  for (bool device : {false, true}) {
    CopyArgs args{device ? in.onDevice() : in.onHost(),
                  device ? out.onDevice() : out.onHost()};
    args.in.shape = {40, 50};
    args.in.strides = {1, 40};
    device ? runOnGpu(args) : runOnCpu(args);
  }
  expectSameBits("transposing copy", out);
}

} // namespace

int main(int argc, char **argv) {
  requireGpu();
  std::string mode = argc > 1 ? argv[1] : "";
  bool small = mode == "small";
  testConvolution(small);
  testEmbeddings(small);
  testShards(small);
  testAngles();
  testFillAndCopy();
  return summary();
}
