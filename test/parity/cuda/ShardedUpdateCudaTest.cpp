//===- ShardedUpdateCudaTest.cpp - CUDA update kernels of several ranks ---===//
//
// AdamW over slices must give the CPU kernel's bits wherever they start, as any
// number of ranks must draw the same random bits; the halves of the gradient
// norm and what is left of a sum over ranks likewise. A program of its own, as
// it needs a GPU; `small` as argument for sanitizers.
//
//===----------------------------------------------------------------------===//

#include "CudaTesting.h"

#include <cmath>
#include <limits>
#include <memory>

using namespace qwen;
using namespace qwen::cudatest;

namespace {

//===----------------------------------------------------------------------===//
// AdamW over slices
//===----------------------------------------------------------------------===//

/// A slice of a shard, and of the tensor whose elements it holds.
struct Slice {
  int64_t start, length, firstElement;
};

/// Slices one behind the other, with and without gaps. Even where a vector may
/// start in the shard, a pair of elements of the tensor may be torn.
std::vector<Slice> makeSlices(std::mt19937_64 &random, bool small) {
  std::vector<Slice> slices;
  int64_t at = 0;
  auto add = [&](int64_t gap, int64_t length, int64_t first) {
    slices.push_back({at + gap, length, first});
    at += gap + length;
  };
  for (int64_t length : {0, 1, 2, 7, 8, 9, 63, 64, 65})
    for (int64_t gap : {0, 1, 2, 5})
      add(gap, length, int64_t(random() % 1000));
  add((64 - at % 64) % 64, 130, 64); // as behind a bucket's padding
  add((64 - at % 64) % 64, 130, 65); // no vector holds whole pairs
  // The number of a pair passes 32 bits inside.
  add(3, 777, (int64_t(1) << 33) - 400);
  add(0, 1, (int64_t(1) << 40) + 1);
  if (small)
    return slices;
  for (int64_t length : {16383, 16384, 16385, 40000})
    for (int64_t gap : {0, 3})
      add(gap, length, int64_t(random() % 100000));
  return slices;
}

/// One shard of each list, and the slices in them.
class ShardCase {
public:
  ShardCase(DType param, DType grad, DType moment1, DType moment2,
            bool useMasters, bool small)
      : slices(makeSlices(random, small)) {
    elements = slices.back().start + slices.back().length + 5;
    add(param, -1);
    add(grad, -1);
    add(moment1, -1);
    add(moment2, 0);
    if (useMasters)
      add(DType::F32, -1);
    for (size_t i = 0; i < slices.size(); ++i)
      ids.push_back(static_cast<int64_t>(random() % 1000));
  }

  void run(int step) {
    double beta1 = 0.9, beta2 = 0.95;
    int i = 0;
    for (double value : {1e-2 / step, 1 - beta1, 1 - beta2, 1e-8, 0.1, 1.0,
                         1 - std::pow(beta1, step), 1 - std::pow(beta2, step)})
      hyper.set(i++, value);
    i = 0;
    for (double value : {1.0, 0.37, 1.0, 0.0})
      stats.set(i++, value);
    rng.set(0, -7);
    rng.set(1, step);
    for (Tensor *tensor : {&hyper, &stats, &rng})
      tensor->toDevice();
    runOnCpu(args(onHost));
    runOnGpu(args(onDevice));
    const char *names[] = {"parameter", "gradient", "moment 1", "moment 2",
                           "master"};
    for (size_t list = 0; list < shards.size(); ++list)
      expectSameBits(names[list], *shards[list]);
  }

private:
  void add(DType dtype, double low) {
    shards.push_back(
        std::make_unique<Tensor>(dtype, std::vector<int64_t>{elements}));
    shards.back()->uniform(random, low, 1).toDevice();
  }
  template <typename F> AdamWArgs args(F at) {
    AdamWArgs result;
    for (size_t i = 0; i < slices.size(); ++i) {
      auto part = [&](size_t list) {
        BufferType type = shards[list]->type;
        type.shape[0] = slices[i].length;
        return at(shards[list]->view(type, slices[i].start));
      };
      result.params.push_back(part(0));
      result.grads.push_back(part(1));
      result.moments1.push_back(part(2));
      result.moments2.push_back(part(3));
      if (shards.size() > 4)
        result.masters.push_back(part(4));
      result.firstElements.push_back(slices[i].firstElement);
    }
    result.tensorIds = ids;
    result.hyper = at(hyper);
    result.stats = at(stats);
    result.rng = at(rng);
    result.decay = true;
    return result;
  }

  std::mt19937_64 random{3};
  std::vector<Slice> slices;
  int64_t elements;
  std::vector<std::unique_ptr<Tensor>> shards;
  std::vector<int64_t> ids;
  Tensor hyper{DType::F32, {8}}, stats{DType::F32, {4}}, rng{DType::I32, {2}};
};

void testSlices(bool small) {
  for (DType param : {DType::BF16, DType::F32})
    for (DType grad : {DType::BF16, DType::F32})
      for (DType moment1 : {DType::BF16, DType::F32})
        for (DType moment2 : {DType::BF16, DType::F32})
          for (bool useMasters : {false, true}) {
            ShardCase shard(param, grad, moment1, moment2, useMasters, small);
            for (int step : {1, 1000})
              shard.run(step);
          }
}

/// What a rank does that holds nothing but a bucket's padding.
void testNoSlice() {
  Tensor hyper(DType::F32, {8}), stats(DType::F32, {4}), rng(DType::I32, {2});
  AdamWArgs args;
  args.hyper = hyper.onDevice();
  args.stats = stats.onDevice();
  args.rng = rng.onDevice();
  runOnGpu(args);
}

//===----------------------------------------------------------------------===//
// Gradient norm
//===----------------------------------------------------------------------===//

void testNormHalves(DType dtype, bool small) {
  std::mt19937_64 random(1);
  std::vector<std::unique_ptr<Tensor>> grads;
  int64_t total = 0;
  for (int64_t size : {64, 65536, 65536 + 64, small ? 128 : 1 << 20}) {
    grads.push_back(
        std::make_unique<Tensor>(dtype, std::vector<int64_t>{size}));
    grads.back()->uniform(random, -1, 1).toDevice();
    total += size;
  }
  Tensor partial(DType::F64, {1}), partials(DType::F64, {7}),
      hyper(DType::F32, {8}), stats(DType::F32, {4});
  auto local = [&](auto at) {
    GradNormLocalArgs args;
    for (auto &grad : grads)
      args.grads.push_back(at(*grad));
    args.partial = at(partial);
    return args;
  };
  runOnCpu(local(onHost));
  runOnGpu(local(onDevice));
  expectClose("sum of squares", partial,
              sumTolerance(DType::F64, double(total)));
  expectRerunEqual("sum of squares", local(onDevice), {&partial});

  auto combine = [&](auto at) {
    GradNormCombineArgs args;
    args.partials = at(partials);
    args.hyper = at(hyper);
    args.stats = at(stats);
    return args;
  };
  for (double limit : {0.5, 1e6, 0.0})
    for (double last : {1e-20, std::numeric_limits<double>::infinity()}) {
      for (int64_t i = 0; i < 7; ++i)
        partials.set(i, i < 6 ? std::pow(10.0, double(i)) / 3 : last);
      for (int64_t i = 0; i < 8; ++i)
        hyper.set(i, limit);
      partials.toDevice();
      hyper.toDevice();
      runOnCpu(combine(onHost));
      runOnGpu(combine(onDevice));
      expectSameBits("norm of the ranks' sums", stats);
    }
}

//===----------------------------------------------------------------------===//
// Sums over ranks
//===----------------------------------------------------------------------===//

/// The same operation on one element of the host.
double stored(const Tensor &shard, const Tensor &sums, int64_t i,
              bool accumulate) {
  auto sum = float(sums.get(i));
  return accumulate ? float(shard.get(i)) + sum : sum;
}

void testStoredSums(DType dtype, int64_t elements, bool accumulate) {
  std::mt19937_64 random(2);
  Tensor full(DType::F32, {2 * elements}), shard(dtype, {elements});
  Tensor sums(DType::F32, {elements});
  full.uniform(random, -1, 1).toDevice();
  shard.uniform(random, -100, 100).toDevice();
  // The second rank's part of the whole.
  for (int64_t i = 0; i < elements; ++i)
    sums.set(i, full.get(elements + i));
  ReduceScatterArgs args;
  args.full = full.onDevice();
  args.shard = shard.onDevice();
  args.accumulate = accumulate;
  for (int64_t i = 0; i < elements; ++i)
    shard.set(i, stored(shard, sums, i, accumulate));
  check(cuda::storeSums(args.full.as<float>() + elements, args, nullptr),
        "launch");
  check(cudaDeviceSynchronize(), "kernel");
  expectSameBits("sum over ranks", shard);
  expectSameBits("whole", full);
}

} // namespace

int main(int argc, char **argv) {
  requireGpu();
  bool small = argc > 1 && std::string(argv[1]) == "small";
  testSlices(small);
  testNoSlice();
  for (DType dtype : {DType::F32, DType::BF16}) {
    testNormHalves(dtype, small);
    for (int64_t elements : {64, 128, 4160, small ? 64 : 3000000})
      for (bool accumulate : {false, true})
        testStoredSums(dtype, elements, accumulate);
  }
  return summary();
}
