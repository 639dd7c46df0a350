//===- BFloat16.h - bfloat16 storage ---------------------------*- C++ -*-===//
//
// bfloat16 as a storage type: exact widening, rounding to nearest even.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_SUPPORT_BFLOAT16_H
#define QWEN_SUPPORT_BFLOAT16_H

#include <bit>
#include <cstdint>

namespace qwen {

/// The upper half of a float.
struct BFloat16 {
  uint16_t bits;
};

/// Exact.
inline float toFloat(BFloat16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

/// Rounds to nearest, ties to even; a NaN stays a (quiet) NaN with its sign.
inline BFloat16 toBFloat16(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x);
  uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  uint32_t quiet = (bits >> 16) | 0x40u;
  bool isNaN = (bits & 0x7fffffffu) > 0x7f800000u;
  return {static_cast<uint16_t>(isNaN ? quiet : rounded)};
}

} // namespace qwen

#endif // QWEN_SUPPORT_BFLOAT16_H
