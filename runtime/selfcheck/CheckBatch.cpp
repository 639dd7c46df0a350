//===- CheckBatch.cpp - Micro-batches of random documents -----------------===//

#include "runtime/selfcheck/CheckBatch.h"

#include <cassert>

using namespace qwen;

CheckDocument qwen::randomDocument(std::mt19937 &random, int64_t length,
                                   int64_t vocabulary) {
  CheckDocument document(static_cast<size_t>(length));
  for (int32_t &token : document)
    token = int32_t(random() % uint32_t(vocabulary));
  return document;
}

Batch qwen::makeBatch(std::span<const CheckDocument> documents,
                      PackLimits limits) {
  Batch batch;
  batch.cuSeqlens.push_back(0);
  for (const CheckDocument &document : documents) {
    for (size_t i = 0; i < document.size(); ++i) {
      bool last = i + 1 == document.size();
      batch.tokens.push_back(document[i]);
      batch.positions.push_back(int32_t(i));
      batch.labels.push_back(last ? ignoredLabel : document[i + 1]);
      batch.supervised += !last;
      batch.contextPairs += double(i + 1);
    }
    batch.cuSeqlens.push_back(int32_t(batch.tokens.size()));
  }
  batch.used = int64_t(batch.tokens.size());
  assert(batch.used <= limits.tokens &&
         int64_t(documents.size()) <= limits.documents);
  batch.tokens.resize(size_t(limits.tokens), 0);
  batch.positions.resize(size_t(limits.tokens), 0);
  batch.labels.resize(size_t(limits.tokens), ignoredLabel);
  batch.cuSeqlens.resize(size_t(limits.documents) + 1, int32_t(batch.used));
  return batch;
}

std::vector<int64_t> qwen::raggedLengths(PackLimits limits) {
  std::vector<int64_t> lengths;
  int64_t left = limits.tokens;
  for (int64_t length : {65, 1, 5, 128, 63, 2, 129}) {
    // The last one is to be the longest.
    if (2 * length > left || int64_t(lengths.size()) + 1 >= limits.documents)
      continue;
    lengths.push_back(length);
    left -= length;
  }
  lengths.push_back(left);
  return lengths;
}
