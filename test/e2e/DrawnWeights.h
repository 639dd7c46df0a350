//===- DrawnWeights.h - Weights and sketches from counters -----*- C++ -*-===//
//
// Initial weights that are a function of a seed, and results of thousands of
// elements in a few hundred. test/golden/compact.py computes the same bits: all
// numbers are integers from Philox and at most one rounding after them.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_E2E_DRAWNWEIGHTS_H
#define QWEN_TEST_E2E_DRAWNWEIGHTS_H

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace qwen::e2e {

/// FNV-1a of a text.
uint32_t hashName(const std::string &name);

/// One tensor of a model: bf16 numbers, no norm near its neutral value, decays
/// that span a factor of 100. The first `keyRows` rows of in_proj_qkv and
/// conv1d, those of queries, resemble the rows of keys behind them, so that
/// q . k is not nearly zero.
std::vector<float> drawWeight(const std::string &name,
                              std::span<const int64_t> shape, uint32_t seed,
                              int64_t keyRows);

/// Elements of a sketch.
inline constexpr size_t sketchWidth = 512;

/// Every element, with a random sign, added to one of `sketchWidth` sums; at
/// most so many elements are themselves. Linear: the squared norm of the
/// difference of two sketches is that of the difference of the tensors times a
/// number of mean 1 and variance below 2 / sketchWidth.
std::vector<float> sketch(std::span<const float> tensor);

/// What the ratio of two norms of sketches may be off: six standard deviations
/// of the norm.
double sketchSlack();

} // namespace qwen::e2e

#endif // QWEN_TEST_E2E_DRAWNWEIGHTS_H
