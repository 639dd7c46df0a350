//===- Tensors.h - Copies of a model's tensors, compared -------*- C++ -*-===//
//
// What a test takes out of an executor to compare.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_E2E_TENSORS_H
#define QWEN_TEST_E2E_TENSORS_H

#include "qwen/Plan/Buffer.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace qwen::e2e {

/// Named tensors, widened to float32 (which holds bf16 exactly).
using Tensors = std::map<std::string, std::vector<float>>;

/// The elements of a contiguous f32 or bf16 view.
std::vector<float> copyOf(const ConstBuffer &buffer);

/// Success where both hold the same bits; else where they differ first, and how
/// many elements differ.
testing::AssertionResult sameBits(std::span<const float> a,
                                  std::span<const float> b);
testing::AssertionResult sameBits(const Tensors &a, const Tensors &b);

/// Frobenius norm.
double norm(std::span<const float> a);
/// Frobenius norm of the difference; NaN where one is NaN, infinite where the
/// lengths differ.
double distance(std::span<const float> a, std::span<const float> b);
/// distance(got, want) / norm(want).
double relativeError(std::span<const float> got, std::span<const float> want);

/// Tensors of fewer elements than `smallTensor` joined as "small". Where an
/// error is carried by a few elements in a thousand, such as those of an Adam
/// update whose gradient is less than its error, the ratio of two errors means
/// something for many elements only.
inline constexpr size_t smallTensor = 4096;
Tensors joinSmall(const Tensors &tensors);

/// True where every element is a finite number.
bool allFinite(const Tensors &tensors);

} // namespace qwen::e2e

#endif // QWEN_TEST_E2E_TENSORS_H
