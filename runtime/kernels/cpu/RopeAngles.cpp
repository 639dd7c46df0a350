//===- RopeAngles.cpp - Rotary angles --------------------------*- C++ -*-===//
//
// kernel.rope_angles. float32 angles are formed as transformers forms them:
// frequency and product are rounded to float32, then cos and sin of that
// float32 angle are rounded once.
//
//===----------------------------------------------------------------------===//

#include "Parallel.h"
#include "Storage.h"
#include "runtime/kernels/cpu/Kernels.h"

#include <cmath>

using namespace qwen;
using namespace qwen::cpu;

/// theta^(-2j/R), rounded to T after each step.
template <typename T> static T frequency(double theta, int64_t j, int64_t r) {
  T exponent = static_cast<T>(2 * j) / static_cast<T>(r);
  T power = static_cast<T>(std::pow(static_cast<double>(static_cast<T>(theta)),
                                    static_cast<double>(exponent)));
  return T(1) / power;
}

void qwen::cpu::launch(const RopeAnglesArgs &args, const LaunchContext &) {
  int64_t width = args.angles.dim(1), half = width / 2;
  const int32_t *positions = args.positions.as<int32_t>();
  withWide(args.angles.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallelBlocks(args.positions.dim(0), 128, [&](int64_t begin, int64_t end) {
      for (int64_t j = 0; j < half; ++j) {
        T f = frequency<T>(args.theta, j, width);
        for (int64_t t = begin; t < end; ++t) {
          double angle = static_cast<T>(positions[t]) * f;
          T *row = args.angles.as<T>() + t * args.angles.strides[0];
          row[j] = static_cast<T>(std::cos(angle));
          row[half + j] = static_cast<T>(std::sin(angle));
        }
      }
    });
  });
}
