//===- BlockProductAvx512.cpp - blockProduct, 512-bit vectors --*- C++ -*-===//
//
// Twelve rows by two vectors: 24 sums and three operands in 32 registers.
//
//===----------------------------------------------------------------------===//

#include <immintrin.h>

namespace qwen::cpu {
namespace {

constexpr int tileRows = 12;

template <typename T> struct Simd;

template <> struct Simd<float> {
  using Vector = __m512;
  static Vector zero() { return _mm512_setzero_ps(); }
  static Vector broadcast(float x) { return _mm512_set1_ps(x); }
  static Vector load(const float *from) { return _mm512_loadu_ps(from); }
  static void store(float *to, Vector x) { _mm512_storeu_ps(to, x); }
  /// c + a b and c - a b, rounded once.
  static Vector add(Vector a, Vector b, Vector c) {
    return _mm512_fmadd_ps(a, b, c);
  }
  static Vector subtract(Vector a, Vector b, Vector c) {
    return _mm512_fnmadd_ps(a, b, c);
  }
};

template <> struct Simd<double> {
  using Vector = __m512d;
  static Vector zero() { return _mm512_setzero_pd(); }
  static Vector broadcast(double x) { return _mm512_set1_pd(x); }
  static Vector load(const double *from) { return _mm512_loadu_pd(from); }
  static void store(double *to, Vector x) { _mm512_storeu_pd(to, x); }
  /// c + a b and c - a b, rounded once.
  static Vector add(Vector a, Vector b, Vector c) {
    return _mm512_fmadd_pd(a, b, c);
  }
  static Vector subtract(Vector a, Vector b, Vector c) {
    return _mm512_fnmadd_pd(a, b, c);
  }
};

} // namespace
} // namespace qwen::cpu

#include "BlockProductImpl.h"

void qwen::cpu::blockProductAvx512(int64_t m, int64_t n, int64_t k,
                                   const BlockOperands<float> &operands,
                                   Update update) {
  product(m, n, k, operands, update);
}

void qwen::cpu::blockProductAvx512(int64_t m, int64_t n, int64_t k,
                                   const BlockOperands<double> &operands,
                                   Update update) {
  product(m, n, k, operands, update);
}
