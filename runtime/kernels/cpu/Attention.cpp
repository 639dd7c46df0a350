//===- Attention.cpp - Causal attention inside documents -------*- C++ -*-===//
//
// kernel.attention. A piece of work is a block of queries of all heads that
// share a key head; it walks the key blocks up to its own with a running
// maximum and sum. Blocks start at the document's start.
//
//===----------------------------------------------------------------------===//

#include "BlockProduct.h"
#include "Documents.h"
#include "HeadRow.h"
#include "Storage.h"
#include "Transpose.h"
#include "VectorMath.h"
#include "runtime/kernels/cpu/Kernels.h"

#include <cmath>
#include <limits>

using namespace qwen;
using namespace qwen::cpu;

namespace {

template <typename S> class QueryBlock {
public:
  using T = Wide<S>;

  QueryBlock(const AttentionArgs &args, const AttentionSlot<T> &slot,
             int64_t documentBegin, int64_t begin, int64_t end, int64_t keyHead)
      : args(args), s(slot), headDim(args.q.dim(2)), dp(padded(headDim)),
        documentBegin(documentBegin), begin(begin), rows(end - begin),
        keyHead(keyHead), groups(args.q.dim(1) / args.k.dim(1)) {}

  void run() {
    for (int64_t row = 0; row < groups * rows; ++row) {
      loadRow(s.q + row * dp, headRow<S>(args.q, token(row), head(row)),
              headDim, dp);
      s.maximum[row] = -std::numeric_limits<T>::infinity();
      s.sum[row] = 0;
    }
    std::fill(s.o, s.o + groups * rows * dp, T(0));
    for (int64_t key = documentBegin; key <= begin; key += attentionBlock)
      addKeys(key, key == begin ? rows : attentionBlock);
    for (int64_t row = 0; row < groups * rows; ++row)
      writeRow(row);
  }

private:
  int64_t token(int64_t row) const { return begin + row % rows; }
  int64_t head(int64_t row) const { return keyHead * groups + row / rows; }

  void addKeys(int64_t key, int64_t keys) {
    transpose(s.kt, attentionBlock, headRow<S>(args.k, key, keyHead),
              args.k.strides[0], keys, headDim);
    for (int64_t j = 0; j < keys; ++j)
      loadRow(s.v + j * dp, headRow<S>(args.v, key + j, keyHead), headDim, dp);
    blockProduct<T>(
        groups * rows, padded(keys), headDim,
        {s.q, dp, 1, s.kt, attentionBlock, s.scores, attentionBlock});
    for (int64_t row = 0; row < groups * rows; ++row)
      softmaxRow(row, key == begin ? row % rows + 1 : keys, padded(keys));
    blockProduct<T>(groups * rows, dp, keys,
                    {s.scores, attentionBlock, 1, s.v, dp, s.o, dp},
                    Update::Add);
  }

  /// Scores of the first `visible` keys become exponentials, the others 0; what
  /// the row held before is scaled to the new maximum.
  void softmaxRow(int64_t row, int64_t visible, int64_t width) {
    T *scores = s.scores + row * attentionBlock;
    T scale = static_cast<T>(args.scale);
    for (int64_t j = 0; j < width; ++j)
      scores[j] =
          j < visible ? scores[j] * scale : -std::numeric_limits<T>::infinity();
    T largest = std::max(s.maximum[row], maximum(scores, width));
    for (int64_t j = 0; j < width; ++j)
      scores[j] = j < visible ? exponential(scores[j] - largest) : T(0);
    T shrink = exponential(s.maximum[row] - largest);
    s.sum[row] = s.sum[row] * shrink + sum(scores, width);
    s.maximum[row] = largest;
    for (int64_t d = 0; d < dp; ++d)
      s.o[row * dp + d] *= shrink;
  }

  void writeRow(int64_t row) {
    T *o = s.o + row * dp;
    for (int64_t d = 0; d < dp; ++d)
      o[d] /= s.sum[row];
    storeRow(headRow<S>(args.o, token(row), head(row)), o, headDim);
    *headRow<T>(args.lse, token(row), head(row)) =
        s.maximum[row] + std::log(s.sum[row]);
  }

  const AttentionArgs &args;
  const AttentionSlot<T> &s;
  const int64_t headDim, dp, documentBegin, begin, rows, keyHead, groups;
};

} // namespace

/// All query blocks, the ones with most keys first.
static int64_t listBlocks(const Documents &documents, DocumentItem *items) {
  int64_t count = 0;
  for (int64_t d = 0; d < documents.count(); ++d)
    for (int64_t b = 0; b * attentionBlock < documents.length(d); ++b)
      items[count++] = {static_cast<int32_t>(d), static_cast<int32_t>(b)};
  std::sort(items, items + count, [](DocumentItem x, DocumentItem y) {
    return x.block != y.block ? x.block > y.block : x.document < y.document;
  });
  return count;
}

template <typename S>
static void run(const AttentionArgs &args, const LaunchContext &context) {
  AttentionDims dims(args);
  Carver carver(context.workspace.data());
  AttentionScratch<Wide<S>> scratch(carver, dims);
  Documents documents(args.cuSeqlens, dims.tokens);
  int64_t items = listBlocks(documents, scratch.items) * dims.keyHeads;
  parallelFor(items, scratch.slots.count(), [&](int64_t i, int64_t slotIndex) {
    DocumentItem item = scratch.items[i / dims.keyHeads];
    AttentionSlot<Wide<S>> slot = scratch.slots.get(slotIndex, dims);
    int64_t start = documents.begin(item.document);
    int64_t begin = start + item.block * attentionBlock;
    int64_t end =
        std::min(documents.end(item.document), begin + attentionBlock);
    QueryBlock<S>(args, slot, start, begin, end, i % dims.keyHeads).run();
  });
  zeroTokensFrom(args.o, documents.total());
  zeroTokensFrom(args.lse, documents.total());
}

void qwen::cpu::launch(const AttentionArgs &args,
                       const LaunchContext &context) {
  withStorage(args.q.dtype,
              [&](auto tag) { run<decltype(tag)>(args, context); });
}
