//===- TokensTarget.cpp - Hostile token files -----------------------------===//
//
// What the reader accepts can be packed and filled into batches: each token
// stands in one batch, with ids in the vocabulary and rising boundaries.
//
//===----------------------------------------------------------------------===//

#include "FuzzTarget.h"
#include "SafetensorsInput.h"
#include "runtime/data/Batch.h"

#include <algorithm>

using namespace qwen;

static constexpr int64_t vocabSize = 64;

/// The promises that kernels and trainer rely on.
static void checkBatch(const Batch &batch, PackLimits limits) {
  for (int32_t token : batch.tokens)
    if (token < 0 || token >= vocabSize)
      fuzz::breakPromise("a batch has a token outside the vocabulary",
                         std::to_string(token));
  for (int32_t label : batch.labels)
    if (label != ignoredLabel && (label < 0 || label >= vocabSize))
      fuzz::breakPromise("a batch has a label outside the vocabulary",
                         std::to_string(label));
  for (size_t i = 1; i < batch.cuSeqlens.size(); ++i)
    if (batch.cuSeqlens[i] < batch.cuSeqlens[i - 1])
      fuzz::breakPromise("boundaries of documents fall", std::to_string(i));
  if (batch.cuSeqlens.front() != 0 || batch.cuSeqlens.back() > limits.tokens)
    fuzz::breakPromise("boundaries of documents leave the batch",
                       std::to_string(batch.cuSeqlens.back()));
}

/// Fills every pack; all of them together hold each token once.
static void checkPacks(const TokenDataset &data,
                       const StatusOr<EpochPacking> &packing,
                       PackLimits limits) {
  if (!packing.ok())
    return fuzz::expectOneLine(packing.status().message());
  int64_t used = 0, supervised = 0;
  Batch batch;
  for (int64_t i = 0; i < packing->packs(); ++i) {
    Status status = fillBatch(data, packing->pack(i), limits, batch);
    if (!status.ok())
      fuzz::breakPromise("a pack does not fit a batch", status.message());
    checkBatch(batch, limits);
    used += batch.used;
    supervised += batch.supervised;
  }
  if (used != data.tokens() || supervised != data.supervisedTokens())
    fuzz::breakPromise("batches do not hold each token once",
                       fmt::format("{} of {}", used, data.tokens()));
}

static bool readFile(std::span<const uint8_t> input) {
  fuzz::MemoryFile memory(input);
  StatusOr<TokenDataset> data = TokenDataset::open(memory.path(), vocabSize);
  if (!data.ok()) {
    fuzz::expectOneLine(data.status().message());
    return false;
  }
  PackLimits limits{.tokens = 64, .documents = 8};
  checkPacks(*data, EpochPacking::create(*data, limits, 1, 0), limits);
  checkPacks(*data, EpochPacking::createInOrder(*data, limits), limits);
  return true;
}

fuzz::Outcome fuzz::run(std::span<const uint8_t> input) {
  bool ok = readFile(input);
  std::vector<uint8_t> repaired = withRightLength(input);
  if (!std::equal(input.begin(), input.end(), repaired.begin()))
    ok |= readFile(repaired);
  return ok ? Outcome::Accepted : Outcome::Refused;
}
