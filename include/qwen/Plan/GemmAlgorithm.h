//===- GemmAlgorithm.h - A product's algorithm in a plan -------*- C++ -*-===//
//
// The configuration of a cuBLASLt algorithm as plans and tuning tables record
// it: these numbers, in this order. An empty list stands for the library's
// first choice.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_PLAN_GEMMALGORITHM_H
#define QWEN_PLAN_GEMMALGORITHM_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace qwen {

/// What each number of an algorithm configures.
inline constexpr std::array<const char *, 9> gemmAlgorithmFields = {
    "id",      "tile",   "stages",      "splitk", "reduction",
    "swizzle", "custom", "inner_shape", "cluster"};

/// An algorithm, or nothing.
using GemmAlgorithm = std::vector<int64_t>;

/// Empty, or one 32-bit unsigned number a field.
inline bool isGemmAlgorithm(const GemmAlgorithm &algorithm) {
  if (algorithm.empty())
    return true;
  if (algorithm.size() != gemmAlgorithmFields.size())
    return false;
  for (int64_t number : algorithm)
    if (number < 0 || number > int64_t(UINT32_MAX))
      return false;
  return true;
}

} // namespace qwen

#endif // QWEN_PLAN_GEMMALGORITHM_H
