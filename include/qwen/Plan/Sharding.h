//===- Sharding.h - How parameters are spread over ranks -------*- C++ -*-===//
//
// The numbers that compiler, plan verifier and runtime agree on.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_PLAN_SHARDING_H
#define QWEN_PLAN_SHARDING_H

#include <cstdint>

namespace qwen {

/// Most ranks of a plan.
inline constexpr int64_t maxWorldSize = 4096;

/// In a bucket a parameter starts at a multiple of this many elements, except
/// inside a stack; so does every rank's shard.
inline constexpr int64_t bucketAlignment = 64;

/// `elements` rounded up to a multiple of `unit`.
constexpr int64_t paddedElements(int64_t elements, int64_t unit) {
  return (elements + unit - 1) / unit * unit;
}

} // namespace qwen

#endif // QWEN_PLAN_SHARDING_H
