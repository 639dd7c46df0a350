//===- GradNorm.cpp - Global gradient norm ---------------------*- C++ -*-===//
//
// kernel.grad_norm and its two halves for several ranks.
//
//===----------------------------------------------------------------------===//

#include "HyperParameters.h"
#include "Parallel.h"
#include "Storage.h"
#include "VectorMath.h"
#include "runtime/kernels/cpu/Kernels.h"

#include <cmath>

using namespace qwen;
using namespace qwen::cpu;

/// Sum of squares in float64, over a fixed number of lanes.
template <typename T> static double sumOfSquares(const T *x, int64_t n) {
  double lanes[sumLanes] = {};
  int64_t whole = n / sumLanes * sumLanes;
  for (int64_t i = 0; i < whole; i += sumLanes)
    for (int64_t lane = 0; lane < sumLanes; ++lane) {
      double value = widen(x[i + lane]);
      lanes[lane] += value * value;
    }
  for (int64_t i = whole; i < n; ++i) {
    double value = widen(x[i]);
    lanes[i - whole] += value * value;
  }
  return foldLanes(lanes);
}

/// Sum of squares of all elements, in fixed blocks in tensor order.
static double totalSquares(const std::vector<ConstBuffer> &grads,
                           const LaunchContext &context) {
  Carver carver(context.workspace.data());
  GradNormScratch scratch(carver, grads);
  int64_t first = 0;
  for (const ConstBuffer &grad : grads) {
    int64_t elements = grad.elements();
    parallelBlocks(elements, gradNormBlock, [&](int64_t begin, int64_t end) {
      withStorage(grad.dtype, [&](auto tag) {
        scratch.partials[first + begin / gradNormBlock] =
            sumOfSquares(grad.as<decltype(tag)>() + begin, end - begin);
      });
    });
    first += ceilDiv(elements, gradNormBlock);
  }
  double total = 0;
  for (int64_t i = 0; i < scratch.blocks; ++i)
    total += scratch.partials[i];
  return total;
}

static void writeStats(double total, const ConstBuffer &hyper,
                       const Buffer &stats) {
  double norm = std::sqrt(total);
  double limit = HyperParameters(hyper).maxGradNorm;
  double clip = limit > 0 ? std::min(1.0, limit / (norm + 1e-6)) : 1.0;
  writeScalar(stats, statsNorm, norm);
  writeScalar(stats, statsClip, clip);
  writeScalar(stats, statsFinite, std::isfinite(norm) ? 1 : 0);
  writeScalar(stats, statsUnused, 0);
}

void qwen::cpu::launch(const GradNormArgs &args, const LaunchContext &context) {
  writeStats(totalSquares(args.grads, context), args.hyper, args.stats);
}

void qwen::cpu::launch(const GradNormLocalArgs &args,
                       const LaunchContext &context) {
  *args.partial.as<double>() = totalSquares(args.grads, context);
}

void qwen::cpu::launch(const GradNormCombineArgs &args, const LaunchContext &) {
  const double *partials = args.partials.as<double>();
  double total = 0;
  for (int64_t rank = 0; rank < args.partials.elements(); ++rank)
    total += partials[rank];
  writeStats(total, args.hyper, args.stats);
}
