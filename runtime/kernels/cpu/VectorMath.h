//===- VectorMath.h - Loops that vectorise the same everywhere --*- C++ -*-===//
//
// exp, sigmoid and sums whose result does not depend on where in a loop an
// element falls or on the SIMD width: each fused step is written out, and sums
// have a fixed number of lanes.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CPU_VECTORMATH_H
#define QWEN_RUNTIME_KERNELS_CPU_VECTORMATH_H

#include <bit>
#include <cmath>
#include <cstdint>

namespace qwen::cpu {

/// 2^n for n in [-126, 127].
inline float powerOfTwo(int32_t n) {
  return std::bit_cast<float>((n + 127) << 23);
}

/// e^x to about one unit in the last place; 0 below about -104, infinity above
/// about 88.7, NaN for NaN.
inline float exponential(float x) {
  x = x < -110.0f ? -110.0f : x;
  x = x > 89.0f ? 89.0f : x;
  // Adding 1.5 * 2^23 rounds to an integer; |x log2(e)| is below 2^22.
  constexpr float toInteger = 12582912.0f;
  float shifted = __builtin_fmaf(x, 1.44269504088896341f, toInteger);
  float n = shifted - toInteger;
  // ln 2 in two parts, the first with trailing zeros so that n * part is exact.
  float r = __builtin_fmaf(n, -0.693359375f, x);
  r = __builtin_fmaf(n, 2.12194440e-4f, r);
  // Minimax polynomial of (e^r - 1 - r) / r^2 on [-ln 2 / 2, ln 2 / 2].
  float p = 1.9875691500e-4f;
  p = __builtin_fmaf(p, r, 1.3981999507e-3f);
  p = __builtin_fmaf(p, r, 8.3334519073e-3f);
  p = __builtin_fmaf(p, r, 4.1665795894e-2f);
  p = __builtin_fmaf(p, r, 1.6666665459e-1f);
  p = __builtin_fmaf(p, r, 5.0000001201e-1f);
  float y = __builtin_fmaf(p, r * r, r) + 1.0f;
  // Two factors, as n may lie outside the exponents of a normal number.
  // The integer is read from the bits: a NaN has none to convert to.
  int32_t exponent =
      std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(toInteger);
  int32_t half = exponent >> 1;
  return y * powerOfTwo(half) * powerOfTwo(exponent - half);
}

inline double exponential(double x) { return std::exp(x); }

/// 1 / (1 + e^-x); saturates without overflow.
template <typename T> inline T sigmoid(T x) {
  return T(1) / (T(1) + exponential(-x));
}

/// Lanes of a sum, added pairwise at the end.
inline constexpr int64_t sumLanes = 16;

template <typename T> inline T foldLanes(T (&lanes)[sumLanes]) {
  for (int64_t width = sumLanes / 2; width > 0; width /= 2)
    for (int64_t i = 0; i < width; ++i)
      lanes[i] += lanes[i + width];
  return lanes[0];
}

/// Sum of a[i] b[i]; n must be a multiple of 16.
template <typename T> inline T dot(const T *a, const T *b, int64_t n) {
  T lanes[sumLanes] = {};
  for (int64_t i = 0; i < n; i += sumLanes)
    for (int64_t lane = 0; lane < sumLanes; ++lane)
      lanes[lane] += a[i + lane] * b[i + lane];
  return foldLanes(lanes);
}

/// Sum of a[i]; n must be a multiple of 16.
template <typename T> inline T sum(const T *a, int64_t n) {
  T lanes[sumLanes] = {};
  for (int64_t i = 0; i < n; i += sumLanes)
    for (int64_t lane = 0; lane < sumLanes; ++lane)
      lanes[lane] += a[i + lane];
  return foldLanes(lanes);
}

/// Largest a[i]; n must be a positive multiple of 16.
template <typename T> inline T maximum(const T *a, int64_t n) {
  T lanes[sumLanes];
  for (int64_t lane = 0; lane < sumLanes; ++lane)
    lanes[lane] = a[lane];
  for (int64_t i = sumLanes; i < n; i += sumLanes)
    for (int64_t lane = 0; lane < sumLanes; ++lane)
      lanes[lane] = a[i + lane] > lanes[lane] ? a[i + lane] : lanes[lane];
  T largest = lanes[0];
  for (int64_t lane = 1; lane < sumLanes; ++lane)
    largest = lanes[lane] > largest ? lanes[lane] : largest;
  return largest;
}

} // namespace qwen::cpu

#endif // QWEN_RUNTIME_KERNELS_CPU_VECTORMATH_H
