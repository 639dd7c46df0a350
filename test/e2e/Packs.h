//===- Packs.h - Documents and micro-batches of tests ----------*- C++ -*-===//
//
// Random documents with fixed seeds, and the inputs that a pack of them has.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_E2E_PACKS_H
#define QWEN_TEST_E2E_PACKS_H

#include "runtime/data/Batch.h"

#include <random>
#include <span>
#include <vector>

namespace qwen::e2e {

/// The generator of all tests; its sequence is fixed by the standard.
using Generator = std::mt19937;

/// A number in [0, count). The distributions of the standard library differ
/// between implementations; this does not.
inline int32_t draw(Generator &generator, int32_t count) {
  return int32_t(generator() % uint32_t(count));
}

/// Tokens and shifted labels.
struct TestDocument {
  std::vector<int32_t> tokens, labels;

  int64_t length() const { return int64_t(tokens.size()); }
  int64_t supervised() const;
  /// The same tokens with no label.
  TestDocument withoutLabels() const;
  /// Other tokens and the same labels.
  TestDocument withOtherTokens(Generator &generator, int32_t vocabulary) const;
};

/// A document in which about `percent` of the tokens are supervised.
TestDocument randomDocument(Generator &generator, int64_t length,
                            int32_t vocabulary, int percent = 100);

/// Labels of all documents that are not ignored.
int64_t countSupervised(std::span<const TestDocument> documents);

/// The documents one after the other; the rest is padding and unused slots.
/// They must fit.
Batch makePack(std::span<const TestDocument> documents, PackLimits limits);

/// The slice of a per-token result that belongs to a document of a pack.
std::vector<float> sliceOf(std::span<const float> perToken, const Batch &pack,
                           size_t document);

} // namespace qwen::e2e

#endif // QWEN_TEST_E2E_PACKS_H
