//===- Transpose.h - Blocked transposition ---------------------*- C++ -*-===//
//
// Transposes a stored matrix into accumulation type, eight by eight.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CPU_TRANSPOSE_H
#define QWEN_RUNTIME_KERNELS_CPU_TRANSPOSE_H

#include "Storage.h"

#include <immintrin.h>

namespace qwen::cpu {

inline __m256 loadEight(const float *from) { return _mm256_loadu_ps(from); }
inline __m256 loadEight(const BFloat16 *from) {
  __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from));
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

/// to[j ldTo + i] = from[i ldFrom + j] for i, j < 8.
template <typename S>
inline void transposeEight(float *to, int64_t ldTo, const S *from,
                           int64_t ldFrom) {
  __m256 r[8], s[8];
  for (int i = 0; i < 8; ++i)
    r[i] = loadEight(from + i * ldFrom);
  for (int i = 0; i < 8; i += 2) {
    s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(to + i * ldTo,
                     _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * ldTo,
                     _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

/// to[j ldTo + i] = from[i ldFrom + j] for i < rows, j < cols.
template <typename S, typename T>
inline void transpose(T *to, int64_t ldTo, const S *from, int64_t ldFrom,
                      int64_t rows, int64_t cols) {
  int64_t blockedRows = 0, blockedCols = 0;
  if constexpr (std::is_same_v<T, float>) {
    blockedRows = rows / 8 * 8;
    blockedCols = cols / 8 * 8;
    for (int64_t i = 0; i < blockedRows; i += 8)
      for (int64_t j = 0; j < blockedCols; j += 8)
        transposeEight(to + j * ldTo + i, ldTo, from + i * ldFrom + j, ldFrom);
  }
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = i < blockedRows ? blockedCols : 0; j < cols; ++j)
      to[j * ldTo + i] = widen(from[i * ldFrom + j]);
}

} // namespace qwen::cpu

#endif // QWEN_RUNTIME_KERNELS_CPU_TRANSPOSE_H
