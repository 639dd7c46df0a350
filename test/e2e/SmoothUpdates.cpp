//===- SmoothUpdates.cpp - Updates that a bound holds ---------------------===//

#include "SmoothUpdates.h"

#include "qwen/Support/Tolerance.h"

#include <algorithm>
#include <cmath>

using namespace qwen;
using namespace qwen::e2e;

Bounds qwen::e2e::updateBounds(const Tensors &weights, const Tensors &gradients,
                               const Bounds &bounds, const SmoothAdamW &adamw) {
  double squares = 0, boundSquares = 0;
  for (const auto &[name, values] : gradients) {
    squares += norm(values) * norm(values);
    boundSquares += bounds.at(name) * bounds.at(name);
  }
  double total = std::sqrt(squares);
  // Without any gradient there is nothing to clip and nothing to change.
  double clip =
      total > 0 ? std::min(1.0, adamw.options.maxGradNorm / total) : 1;
  double relative = total > 0 ? std::sqrt(boundSquares) / total : 0;
  double unit = unitRoundoff(DType::F32);
  Bounds result;
  for (const auto &[name, values] : weights) {
    double size = norm(gradients.at(name));
    double change = clip * (bounds.at(name) + size * relative);
    // The update itself is formed with fewer than ten roundings; its
    // subtraction rounds the weight.
    result[name] = adamw.rate * (change + 2 * 10 * unit * clip * size) +
                   2 * unit * norm(values);
  }
  return result;
}
