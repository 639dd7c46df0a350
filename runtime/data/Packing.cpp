//===- Packing.cpp - Documents to packs -----------------------------------===//

#include "runtime/data/Packing.h"

#include "qwen/Support/Random.h"
#include "runtime/data/TokenDataset.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

using namespace qwen;

std::vector<uint32_t> qwen::permutation(uint32_t count, uint32_t seed,
                                        uint32_t epoch, uint32_t stream) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (uint32_t i = count; i-- > 1;) {
    auto bits = randomBits(seed, RandomUse::Shuffle, epoch, stream, i);
    uint64_t wide = uint64_t(bits[0]) << 32 | bits[1];
    // The bias of a 64-bit remainder is below 2^-32.
    std::swap(order[i], order[wide % (uint64_t(i) + 1)]);
  }
  return order;
}

/// Every document fits into a pack, and their number into an index.
static Status checkLengths(const TokenDataset &data, PackLimits limits) {
  if (data.documents() > std::numeric_limits<uint32_t>::max() - 1)
    return invalidArgument("'{}' has {} documents, at most {} are supported",
                           data.path(), data.documents(),
                           std::numeric_limits<uint32_t>::max() - 1);
  for (int64_t i = 0; i < data.documents(); ++i)
    if (data.length(i) > limits.tokens)
      return invalidArgument(
          "'{}': document {} has {} tokens, a pack of this plan holds {}; "
          "qwen-prepare can drop, truncate or split long documents",
          data.path(), i, data.length(i), limits.tokens);
  return okStatus();
}

void EpochPacking::append(std::span<const uint32_t> documents) {
  order.insert(order.end(), documents.begin(), documents.end());
  begins.push_back(order.size());
}

/// Packs `window` best-fit decreasing.
static std::vector<std::vector<uint32_t>>
packWindow(const TokenDataset &data, std::span<const uint32_t> window,
           PackLimits limits) {
  std::vector<uint32_t> longestFirst(window.begin(), window.end());
  std::stable_sort(
      longestFirst.begin(), longestFirst.end(),
      [&](uint32_t a, uint32_t b) { return data.length(a) > data.length(b); });
  std::vector<std::vector<uint32_t>> packs;
  // Packs that can take a document more: (tokens left, pack).
  std::set<std::pair<int64_t, uint32_t>> open;
  for (uint32_t document : longestFirst) {
    int64_t length = data.length(document);
    auto fullest = open.lower_bound({length, 0});
    uint32_t pack;
    int64_t left = limits.tokens;
    if (fullest == open.end()) {
      pack = static_cast<uint32_t>(packs.size());
      packs.emplace_back();
    } else {
      left = fullest->first;
      pack = fullest->second;
      open.erase(fullest);
    }
    packs[pack].push_back(document);
    left -= length;
    if (left > 0 && int64_t(packs[pack].size()) < limits.documents)
      open.insert({left, pack});
  }
  return packs;
}

StatusOr<EpochPacking> EpochPacking::create(const TokenDataset &data,
                                            PackLimits limits, uint32_t seed,
                                            uint32_t epoch) {
  QWEN_RETURN_IF_ERROR(checkLengths(data, limits));
  uint32_t count = static_cast<uint32_t>(data.documents());
  std::vector<uint32_t> shuffled = permutation(count, seed, epoch, 0);
  EpochPacking packing;
  packing.order.reserve(count);
  uint32_t windows = 0;
  for (size_t begin = 0; begin < count; begin += packingWindow) {
    auto window = std::span(shuffled).subspan(
        begin, std::min<size_t>(packingWindow, count - begin));
    auto packs = packWindow(data, window, limits);
    for (uint32_t pack : permutation(static_cast<uint32_t>(packs.size()), seed,
                                     epoch, ++windows))
      packing.append(packs[pack]);
  }
  packing.fill =
      double(data.tokens()) / (double(packing.packs()) * double(limits.tokens));
  return packing;
}

StatusOr<EpochPacking> EpochPacking::createInOrder(const TokenDataset &data,
                                                   PackLimits limits) {
  QWEN_RETURN_IF_ERROR(checkLengths(data, limits));
  EpochPacking packing;
  std::vector<uint32_t> pack;
  int64_t used = 0;
  for (int64_t i = 0; i < data.documents(); ++i) {
    bool full = used + data.length(i) > limits.tokens ||
                int64_t(pack.size()) == limits.documents;
    if (full) {
      packing.append(pack);
      pack.clear();
      used = 0;
    }
    pack.push_back(static_cast<uint32_t>(i));
    used += data.length(i);
  }
  packing.append(pack);
  packing.fill =
      double(data.tokens()) / (double(packing.packs()) * double(limits.tokens));
  return packing;
}
