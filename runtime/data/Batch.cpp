//===- Batch.cpp - Per-token inputs of a micro-batch ----------------------===//

#include "runtime/data/Batch.h"

#include <algorithm>
#include <numeric>

using namespace qwen;

Status qwen::fillBatch(const TokenDataset &data,
                       std::span<const uint32_t> documents, PackLimits limits,
                       Batch &batch) {
  if (int64_t(documents.size()) > limits.documents)
    return invalidArgument("a pack of {} documents; the plan has room for {}",
                           documents.size(), limits.documents);
  size_t size = static_cast<size_t>(limits.tokens), used = 0;
  for (uint32_t index : documents)
    used += data.document(index).tokens.size();
  if (used > size)
    return invalidArgument("a pack of {} tokens; the plan has room for {}",
                           used, size);
  batch.tokens.assign(size, 0);
  batch.labels.assign(size, ignoredLabel);
  batch.positions.assign(size, 0);
  batch.cuSeqlens.assign(static_cast<size_t>(limits.documents) + 1, 0);
  batch.supervised = 0;
  batch.contextPairs = 0;
  size_t at = 0, slot = 0;
  for (uint32_t index : documents) {
    Document document = data.document(index);
    size_t length = document.tokens.size();
    std::copy(document.tokens.begin(), document.tokens.end(),
              batch.tokens.begin() + at);
    std::iota(batch.positions.begin() + at,
              batch.positions.begin() + at + length, 0);
    for (size_t i = 1; i < length; ++i)
      if (document.mask[i]) {
        batch.labels[at + i - 1] = document.tokens[i];
        ++batch.supervised;
      }
    at += length;
    batch.contextPairs += double(length) * double(length + 1) / 2;
    batch.cuSeqlens[++slot] = static_cast<int32_t>(at);
  }
  std::fill(batch.cuSeqlens.begin() + slot, batch.cuSeqlens.end(),
            static_cast<int32_t>(at));
  batch.used = static_cast<int64_t>(at);
  return okStatus();
}

int64_t qwen::countSupervised(const TokenDataset &data,
                              std::span<const uint32_t> documents) {
  int64_t count = 0;
  for (uint32_t index : documents)
    for (uint8_t mask : data.document(index).mask)
      count += mask;
  return count;
}
