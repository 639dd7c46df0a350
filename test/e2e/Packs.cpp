//===- Packs.cpp - Documents and micro-batches of tests -------------------===//

#include "Packs.h"

#include <algorithm>
#include <cassert>

using namespace qwen;
using namespace qwen::e2e;

int64_t TestDocument::supervised() const {
  return std::ranges::count_if(labels,
                               [](int32_t l) { return l != ignoredLabel; });
}

TestDocument TestDocument::withoutLabels() const {
  return {tokens, std::vector<int32_t>(tokens.size(), ignoredLabel)};
}

TestDocument TestDocument::withOtherTokens(Generator &generator,
                                           int32_t vocabulary) const {
  TestDocument other = *this;
  // Never the same token, so that every one of them is a change.
  for (int32_t &token : other.tokens)
    token = (token + 1 + draw(generator, vocabulary - 1)) % vocabulary;
  return other;
}

TestDocument qwen::e2e::randomDocument(Generator &generator, int64_t length,
                                       int32_t vocabulary, int percent) {
  TestDocument document;
  for (int64_t i = 0; i < length; ++i)
    document.tokens.push_back(draw(generator, vocabulary));
  for (int64_t i = 0; i < length; ++i) {
    bool supervised = i + 1 < length && draw(generator, 100) < percent;
    document.labels.push_back(supervised ? document.tokens[size_t(i) + 1]
                                         : ignoredLabel);
  }
  return document;
}

int64_t qwen::e2e::countSupervised(std::span<const TestDocument> documents) {
  int64_t count = 0;
  for (const TestDocument &document : documents)
    count += document.supervised();
  return count;
}

Batch qwen::e2e::makePack(std::span<const TestDocument> documents,
                          PackLimits limits) {
  Batch pack;
  pack.cuSeqlens.push_back(0);
  for (const TestDocument &document : documents) {
    for (int64_t i = 0; i < document.length(); ++i)
      pack.positions.push_back(int32_t(i));
    pack.tokens.insert(pack.tokens.end(), document.tokens.begin(),
                       document.tokens.end());
    pack.labels.insert(pack.labels.end(), document.labels.begin(),
                       document.labels.end());
    pack.cuSeqlens.push_back(int32_t(pack.tokens.size()));
  }
  pack.used = int64_t(pack.tokens.size());
  pack.supervised = countSupervised(documents);
  assert(pack.used <= limits.tokens &&
         int64_t(documents.size()) <= limits.documents);
  pack.tokens.resize(size_t(limits.tokens), 0);
  pack.positions.resize(size_t(limits.tokens), 0);
  pack.labels.resize(size_t(limits.tokens), ignoredLabel);
  pack.cuSeqlens.resize(size_t(limits.documents) + 1, int32_t(pack.used));
  return pack;
}

std::vector<float> qwen::e2e::sliceOf(std::span<const float> perToken,
                                      const Batch &pack, size_t document) {
  return {perToken.begin() + pack.cuSeqlens[document],
          perToken.begin() + pack.cuSeqlens[document + 1]};
}
