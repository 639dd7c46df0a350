//===- SmoothUpdates.h - Updates that a bound holds ------------*- C++ -*-===//

#ifndef QWEN_TEST_E2E_SMOOTHUPDATES_H
#define QWEN_TEST_E2E_SMOOTHUPDATES_H

#include "Tensors.h"

#include "runtime/trainer/Schedule.h"

#include <array>
#include <map>
#include <string>

namespace qwen::e2e {

/// Bounds of the distances of tensors, by name.
using Bounds = std::map<std::string, double>;

/// AdamW whose update is a function of the gradient with slope at most the
/// learning rate: epsilon is large. With the usual epsilon the first update is
/// the gradient's sign, which no bound on the gradient holds.
struct SmoothAdamW {
  AdamWOptions options;
  double rate = 0.01;
  SmoothAdamW() {
    options.epsilon = 1;
    options.maxGradNorm = 0.5;
  }
  std::array<float, 8> hyper(int64_t update) const {
    return makeHyper(options, rate, update);
  }
};

/// How far weights may be from `weights` after the first update, where their
/// gradients were at most `bounds` away from `gradients`: as the update's slope
/// makes them.
Bounds updateBounds(const Tensors &weights, const Tensors &gradients,
                    const Bounds &bounds, const SmoothAdamW &adamw);

} // namespace qwen::e2e

#endif // QWEN_TEST_E2E_SMOOTHUPDATES_H
