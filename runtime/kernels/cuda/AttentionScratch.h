//===- AttentionScratch.h - Scratch of the attention kernels ---*- C++ -*-===//
//
// Sizes, the lists of work and the scratch that the kernels hand each other. A
// block is 64 rows of a document, counted from its first row. Includes no CUDA,
// so that a compiler can ask for sizes.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_ATTENTIONSCRATCH_H
#define QWEN_RUNTIME_KERNELS_CUDA_ATTENTIONSCRATCH_H

#include "qwen/Plan/Kernels.h"
#include "qwen/Plan/Scratch.h"

#include <algorithm>

namespace qwen::cuda {

/// First row of a document and its length.
struct DocumentRows {
  int token, length;
};

inline constexpr int blockRows = 64;
inline constexpr uint32_t blockPanelBytes = 8192; ///< [64, 64] bf16
inline constexpr uint32_t squareImageBytes = 8192;

/// One piece of a document: `index` counts blocks (or pairs of blocks).
struct AttentionTile {
  DocumentRows document;
  int index, blocks; ///< blocks of the document
  int firstBlock;    ///< blocks of the documents before
  int firstSquare;   ///< lower squares (64 x 64) of the documents before
};

/// Most passes of the backward, and so most key heads.
inline constexpr int maxAttentionPasses = 64;

/// The schedule kernel's counts, and the tickets of the kernels that follow.
struct AttentionHeader {
  int blocks, pairs;
  int nextForward;
  int nextKeys[maxAttentionPasses], nextQueries[maxAttentionPasses];
};

/// Statistics of one block of queries and one head.
struct BlockStatistics {
  float lse[blockRows];   ///< in units of log 2; +inf behind the end
  float delta[blockRows]; ///< sum(o do); 0 behind the end
};

struct AttentionSizes {
  int tokens, heads, keyHeads, groups, documents;
  int maxBlocks, maxPairs, maxSquares;
  int passes; ///< of the backward, each for `passKeyHeads` key heads
  int passKeyHeads;

  template <typename Args>
  explicit AttentionSizes(const Args &args)
      : tokens(int(args.q.dim(0))), heads(int(args.q.dim(1))),
        keyHeads(int(args.k.dim(1))), groups(heads / keyHeads),
        documents(int(args.cuSeqlens.dim(0) - 1)) {
    // A document adds at most one block, pair or square that is not full.
    int more = std::min(documents, tokens);
    int full = int(ceilDiv(tokens, blockRows));
    maxBlocks = full + more;
    maxPairs = int(ceilDiv(tokens, 2 * blockRows)) + more;
    maxSquares = int(int64_t(full) * (full + 1) / 2 + more);
    // The squares of a pass take at most a GiB, or what one key head needs.
    int64_t bytes =
        int64_t(groups) * std::max(maxSquares, 1) * squareImageBytes;
    passKeyHeads =
        int(std::clamp<int64_t>((int64_t(1) << 30) / bytes, 1, keyHeads));
    passes = int(ceilDiv(keyHeads, passKeyHeads));
    passKeyHeads = int(ceilDiv(keyHeads, passes));
  }
};

/// What the kernels of one launch hand each other.
struct AttentionBuffers {
  AttentionHeader *header;
  AttentionTile *pairs;    ///< most keys first [maxPairs]
  AttentionTile *unsorted; ///< the schedule kernel's [maxPairs, maxBlocks]
  // Of the backward alone.
  AttentionTile *blocks;       ///< most queries first [maxBlocks]
  BlockStatistics *statistics; ///< [head, block]
  std::byte *squares;          ///< images of ds^T [head of the pass, square]

  AttentionBuffers(Carver &carver, const AttentionSizes &sizes,
                   bool isBackward) {
    int64_t backward = isBackward ? 1 : 0;
    header = carver.take<AttentionHeader>(1);
    pairs = carver.take<AttentionTile>(sizes.maxPairs);
    unsorted =
        carver.take<AttentionTile>(sizes.maxPairs + backward * sizes.maxBlocks);
    blocks = carver.take<AttentionTile>(backward * sizes.maxBlocks);
    statistics =
        carver.take<BlockStatistics>(backward * sizes.maxBlocks * sizes.heads);
    squares =
        carver.take<std::byte>(backward * sizes.passKeyHeads * sizes.groups *
                               int64_t(sizes.maxSquares) * squareImageBytes);
  }
};

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_ATTENTIONSCRATCH_H
