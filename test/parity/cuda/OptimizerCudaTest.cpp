//===- OptimizerCudaTest.cpp - CUDA gradient norm and AdamW ---------------===//
//
// AdamW must give the CPU kernel's bits, stochastic rounding included; the norm
// is within the bound of a float64 sum. A program of its own, as it needs a
// GPU:
//
//   OptimizerCudaTest         parity, exit status 1 on a miss
//   OptimizerCudaTest small   the same on small shapes (for sanitizers)
//
//===----------------------------------------------------------------------===//

#include "CudaTesting.h"

#include <cmath>
#include <limits>
#include <memory>

using namespace qwen;
using namespace qwen::cudatest;

namespace {

using Tensors = std::vector<std::unique_ptr<Tensor>>;

std::vector<int64_t> sizes(bool small) {
  if (small)
    return {1, 7, 8, 9, 300};
  return {1, 7, 8, 9, 16383, 16384, 16385, 70000, 65536, 131073};
}

/// Step, limits and rates, changed in device memory alone.
void writeHyper(Tensor &hyper, double lr, double maxGradNorm, int step) {
  double beta1 = 0.9, beta2 = 0.95;
  int i = 0;
  for (double value : {lr, 1 - beta1, 1 - beta2, 1e-8, 0.1, maxGradNorm,
                       1 - std::pow(beta1, step), 1 - std::pow(beta2, step)})
    hyper.set(i++, value);
  hyper.toDevice();
}

//===----------------------------------------------------------------------===//
// Gradient norm
//===----------------------------------------------------------------------===//

void testGradNorm(bool small) {
  std::mt19937_64 random(1);
  Tensors grads;
  int64_t total = 0;
  for (int64_t size : sizes(small)) {
    grads.push_back(
        std::make_unique<Tensor>(DType::F32, std::vector<int64_t>{size}));
    grads.back()->uniform(random, -1, 1).toDevice();
    total += size;
  }
  Tensor hyper(DType::F32, {8}), stats(DType::F32, {4});
  auto args = [&](auto at) {
    GradNormArgs result;
    for (auto &grad : grads)
      result.grads.push_back(at(*grad));
    result.hyper = at(hyper);
    result.stats = at(stats);
    return result;
  };
  for (double limit : {0.5, 1e6, 0.0}) {
    writeHyper(hyper, 1e-2, limit, 3);
    runOnCpu(args(onHost));
    runOnGpu(args(onDevice));
    expectClose("norm", stats, sumTolerance(DType::F64, double(total)));
    expectRerunEqual("norm", args(onDevice), {&stats});
  }
  for (double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    grads[2]->set(5, bad);
    grads[2]->toDevice();
    runOnGpu(args(onDevice));
    report("norm", "calls a bad gradient finite",
           stats.get(stats.deviceBytes(), 2) == 0);
  }
}

//===----------------------------------------------------------------------===//
// AdamW
//===----------------------------------------------------------------------===//

struct AdamWCase {
  Tensors params, grads, moments1, moments2, masters;
  Tensor hyper{DType::F32, {8}}, stats{DType::F32, {4}}, rng{DType::I32, {2}};
  std::vector<int64_t> ids;
  bool decay;

  AdamWCase(DType param, DType moment1, DType moment2, bool useMasters,
            bool decay, bool small)
      : decay(decay) {
    std::mt19937_64 random(3);
    auto add = [&](Tensors &list, DType dtype, int64_t size, double low) {
      list.push_back(
          std::make_unique<Tensor>(dtype, std::vector<int64_t>{size}));
      list.back()->uniform(random, low, 1);
    };
    for (int64_t size : sizes(small)) {
      add(params, param, size, -1);
      add(grads, DType::F32, size, -1);
      add(moments1, moment1, size, -1);
      add(moments2, moment2, size, 0);
      if (useMasters)
        add(masters, DType::F32, size, -1);
      ids.push_back(static_cast<int64_t>(random() % 1000));
    }
    // Numbers at the ends of the range: no moment yet, and denormal ones.
    for (int64_t i = 0; i < 5; ++i) {
      grads[3]->set(i, i % 2 ? 1e-30 : 0);
      moments1[3]->set(i, 0);
      moments2[3]->set(i, i == 4 ? 1e-39 : 0);
    }
    // Whole vectors without a gradient so far, with zeros of either sign.
    for (int64_t i = 8; i < 40; ++i) {
      grads[3]->set(i, i % 3 ? 0.0 : -0.0);
      moments1[3]->set(i, i % 7 == 6 ? -0.0 : 0.0);
      moments2[3]->set(i, 0);
      if (i % 5 == 0)
        params[3]->set(i, i % 2 ? 0.0 : -0.0);
    }
    for (Tensors *list : lists())
      for (auto &tensor : *list)
        tensor->toDevice();
  }
  std::vector<Tensors *> lists() {
    return {&params, &grads, &moments1, &moments2, &masters};
  }
  void writeInputs(int32_t seed, int32_t step, double clip, double finite) {
    writeHyper(hyper, 1e-2 / step, 1, step);
    int i = 0;
    for (double value : {1.0, clip, finite, 0.0})
      stats.set(i++, value);
    rng.set(0, seed);
    rng.set(1, step);
    stats.toDevice();
    rng.toDevice();
  }
  template <typename F> AdamWArgs args(F at) {
    AdamWArgs result;
    auto add = [&](auto &buffers, const Tensors &tensors) {
      for (auto &tensor : tensors)
        buffers.push_back(at(*tensor));
    };
    add(result.params, params);
    add(result.grads, grads);
    add(result.moments1, moments1);
    add(result.moments2, moments2);
    add(result.masters, masters);
    result.hyper = at(hyper);
    result.stats = at(stats);
    result.rng = at(rng);
    result.tensorIds = ids;
    result.decay = decay;
    return result;
  }
  void refillGradients(std::mt19937_64 &random) {
    for (auto &grad : grads)
      grad->uniform(random, -1, 1).toDevice();
  }
  void expectSame() {
    const char *names[] = {"parameter", "gradient", "moment 1", "moment 2",
                           "master"};
    for (size_t l = 0; l < lists().size(); ++l)
      for (auto &tensor : *lists()[l])
        expectSameBits(names[l], *tensor);
  }
};

void testAdamW(DType param, DType moment1, DType moment2, bool useMasters,
               bool decay, bool small) {
  AdamWCase c(param, moment1, moment2, useMasters, decay, small);
  // One table for all steps, as in a replayed graph.
  Launcher launcher(c.args(onDevice));
  std::mt19937_64 random(4);
  int32_t seed = -7;
  for (int step : {1, 2, 1000}) {
    c.writeInputs(seed, step, step == 2 ? 0.37 : 1, 1);
    runOnCpu(c.args(onHost));
    launcher.enqueue(nullptr);
    check(cudaDeviceSynchronize(), "kernel");
    c.expectSame();
    c.refillGradients(random);
  }
  // A step that is not finite changes nothing.
  c.grads[1]->set(0, std::nan(""));
  c.grads[1]->toDevice();
  c.writeInputs(seed, 1001, std::nan(""), 0);
  runOnCpu(c.args(onHost));
  launcher.enqueue(nullptr);
  check(cudaDeviceSynchronize(), "kernel");
  c.expectSame();
}

void testAllAdamW(bool small) {
  for (DType param : {DType::BF16, DType::F32})
    for (DType moment1 : {DType::BF16, DType::F32})
      for (DType moment2 : {DType::BF16, DType::F32})
        for (bool useMasters : {false, true})
          testAdamW(param, moment1, moment2, useMasters, useMasters, small);
  testAdamW(DType::BF16, DType::BF16, DType::BF16, false, true, small);
  testAdamW(DType::F32, DType::F32, DType::F32, false, true, small);
}

} // namespace

int main(int argc, char **argv) {
  requireGpu();
  std::string mode = argc > 1 ? argv[1] : "";
  bool small = mode == "small";
  testGradNorm(small);
  testAllAdamW(small);
  return summary();
}
