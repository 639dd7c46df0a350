//===- Batch.h - Per-token inputs of a micro-batch -------------*- C++ -*-===//
//
// Builds tokens, labels, positions and document boundaries of a pack.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_DATA_BATCH_H
#define QWEN_RUNTIME_DATA_BATCH_H

#include "runtime/data/Packing.h"
#include "runtime/data/TokenDataset.h"

#include <cstdint>
#include <span>
#include <vector>

namespace qwen {

/// Label of a position without loss.
inline constexpr int32_t ignoredLabel = -100;

/// The inputs of a micro-batch. Every per-token list has the pack's full
/// length; what follows the last document is padding: token 0, position 0, no
/// label, in no document.
struct Batch {
  std::vector<int32_t> tokens;
  std::vector<int32_t> labels; ///< the token to predict, or ignoredLabel
  std::vector<int32_t> positions;
  /// Document starts, then the end of the last one in all other slots.
  std::vector<int32_t> cuSeqlens;
  int64_t supervised = 0; ///< labels that are not ignored
  int64_t used = 0;       ///< tokens that are not padding
  /// Sum over documents of length * (length + 1) / 2: the pairs of a token and
  /// one at or before it, for FLOP counts.
  double contextPairs = 0;
};

/// Fills `batch`, whose memory is reused. InvalidArgument where the documents
/// are more than `limits`, which are the plan's, has room for.
Status fillBatch(const TokenDataset &data, std::span<const uint32_t> documents,
                 PackLimits limits, Batch &batch);

/// Labels of a pack that are not ignored.
int64_t countSupervised(const TokenDataset &data,
                        std::span<const uint32_t> documents);

} // namespace qwen

#endif // QWEN_RUNTIME_DATA_BATCH_H
