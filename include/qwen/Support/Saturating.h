//===- Saturating.h - Counts that stop at the largest number ---*- C++ -*-===//
//
// For counts of work that are reported, never used as sizes: a crafted plan can
// ask for more operations than 64 bits hold.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_SUPPORT_SATURATING_H
#define QWEN_SUPPORT_SATURATING_H

#include <cstdint>
#include <limits>

namespace qwen {

/// a * b for non-negative numbers, at most the largest int64_t.
inline int64_t saturatingMultiply(int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result)
             ? std::numeric_limits<int64_t>::max()
             : result;
}

/// a + b likewise.
inline int64_t saturatingAdd(int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_add_overflow(a, b, &result)
             ? std::numeric_limits<int64_t>::max()
             : result;
}

} // namespace qwen

#endif // QWEN_SUPPORT_SATURATING_H
