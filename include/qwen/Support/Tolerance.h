//===- Tolerance.h - Error bounds of floating-point results ----*- C++ -*-===//
//
// The home of test tolerances. A bound is made of the unit roundoff of the type
// that sums are kept in, the length of the longest sum, the number of such sums
// that feed each other, and the roundoff of the type the result is stored in.
//
// Sums: with probability at least 1 - 2 exp(-lambda^2 / 2) a sum of n terms is
// within lambda sqrt(n) u of the sum of their magnitudes (Higham and Mary, "A
// new approach to probabilistic rounding error analysis", SISC 2019). lambda =
// 6 leaves 3e-8.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_SUPPORT_TOLERANCE_H
#define QWEN_SUPPORT_TOLERANCE_H

#include "qwen/Plan/Buffer.h"

#include <cmath>

namespace qwen {

/// Largest relative error of rounding to nearest.
constexpr double unitRoundoff(DType dtype) {
  switch (dtype) {
  case DType::F32:
    return 0x1p-24;
  case DType::BF16:
    return 0x1p-8;
  case DType::F64:
    return 0x1p-53;
  case DType::I32:
    return 0;
  }
  return 0;
}

/// The type in which kernels keep sums of values stored as `storage`.
constexpr DType accumulationType(DType storage) {
  return storage == DType::F64 ? DType::F64 : DType::F32;
}

/// Error of `stages` sums of at most `length` terms that feed each other,
/// relative to the magnitude of what is summed.
inline double sumTolerance(DType storage, double length, int stages = 1) {
  constexpr double lambda = 6;
  return lambda * std::sqrt(length) * stages *
         unitRoundoff(accumulationType(storage));
}

/// Bound of |result - exact| for a result stored as `stored`: `sums` is
/// sumTolerance, `magnitude` that of what is summed.
inline double resultTolerance(DType stored, double sums, double magnitude,
                              double exact) {
  return sums * magnitude + unitRoundoff(stored) * std::fabs(exact);
}

/// Relative error, in the root mean square sense, of results that pass
/// `roundings` roundings to `stored` which do not depend on each other: each
/// has a mean square error of a third of the largest one's.
inline double roundingTolerance(DType stored, int roundings) {
  return unitRoundoff(stored) * std::sqrt(roundings / 3.0);
}
/// No element of such results is further off than this many times that error
/// (as for sums, above).
inline constexpr double largestDeviation = 6;

/// Bound of |central difference - derivative| in float64 for a function of
/// about `magnitude` whose third derivative is of that size too, at the step
/// that balances truncation and rounding.
inline double differenceStep() { return std::cbrt(3 * 0x1p-53); }
inline double differenceTolerance(double magnitude, double length) {
  double h = differenceStep();
  return magnitude * (h * h + sumTolerance(DType::F64, length) / h);
}

} // namespace qwen

#endif // QWEN_SUPPORT_TOLERANCE_H
