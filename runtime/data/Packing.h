//===- Packing.h - Documents to packs --------------------------*- C++ -*-===//
//
// Which documents share a micro-batch. A function of (document lengths, seed,
// epoch) alone:
//
//   1. the documents are shuffled by a counter-based permutation;
//   2. the shuffled list is cut into windows of `packingWindow` documents;
//   3. a window is packed best-fit decreasing: longest document first, each
//      into the fullest pack that still has room for it;
//   4. the packs of a window are shuffled, because step 3 makes the packs with
//      the long documents first.
//
// Every document is in exactly one pack of an epoch. Windows bound what a pack
// may mix, so that epochs differ in more than the order of their packs.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_DATA_PACKING_H
#define QWEN_RUNTIME_DATA_PACKING_H

#include "qwen/Support/Status.h"

#include <cstdint>
#include <span>
#include <vector>

namespace qwen {

class TokenDataset;

/// Documents packed together.
inline constexpr int64_t packingWindow = 8192;

/// Capacity of a pack.
struct PackLimits {
  int64_t tokens = 0;
  int64_t documents = 0;
};

/// The packs of one epoch.
class EpochPacking {
public:
  /// Shuffled and packed for training. Fails where a document has more tokens
  /// than a pack holds.
  static StatusOr<EpochPacking> create(const TokenDataset &data,
                                       PackLimits limits, uint32_t seed,
                                       uint32_t epoch);
  /// In the order of the file, next-fit, for evaluation.
  static StatusOr<EpochPacking> createInOrder(const TokenDataset &data,
                                              PackLimits limits);

  int64_t packs() const { return int64_t(begins.size()) - 1; }
  /// Indices of the documents of a pack, in their order in it.
  std::span<const uint32_t> pack(int64_t index) const {
    size_t begin = begins[size_t(index)], end = begins[size_t(index) + 1];
    return std::span(order).subspan(begin, end - begin);
  }
  /// Tokens of documents divided by tokens of packs.
  double efficiency() const { return fill; }

private:
  EpochPacking() = default;
  void append(std::span<const uint32_t> documents);

  std::vector<uint32_t> order;
  std::vector<size_t> begins = {0};
  double fill = 0;
};

/// The numbers 0 … count - 1 in an order that depends on the arguments alone.
std::vector<uint32_t> permutation(uint32_t count, uint32_t seed, uint32_t epoch,
                                  uint32_t stream);

} // namespace qwen

#endif // QWEN_RUNTIME_DATA_PACKING_H
