//===- AttentionGrad.cpp - Gradients of attention --------------*- C++ -*-===//
//
// kernel.attention_grad. A piece of work is one key head of one document: for
// each key block, over its query heads and their blocks in order,
//
//   p = exp(scale q k^T - lse),  ds = scale p (do v^T - sum(o do))
//   dv += p^T do,  dk += ds^T q,  dq += ds k.
//
// No two pieces write the same rows, so every sum has one order.
//
//===----------------------------------------------------------------------===//

#include "BlockProduct.h"
#include "Documents.h"
#include "HeadRow.h"
#include "Storage.h"
#include "Transpose.h"
#include "VectorMath.h"
#include "runtime/kernels/cpu/Kernels.h"

using namespace qwen;
using namespace qwen::cpu;

namespace {

template <typename S> class KeyHeadGradients {
public:
  using T = Wide<S>;

  KeyHeadGradients(const AttentionGradArgs &args,
                   const AttentionGradScratch<T> &scratch,
                   const AttentionGradSlot<T> &slot, int64_t begin, int64_t end,
                   int64_t keyHead)
      : args(args), scratch(scratch), s(slot), heads(args.q.dim(1)),
        headDim(args.q.dim(2)), dp(padded(headDim)), begin(begin), end(end),
        keyHead(keyHead), groups(heads / args.k.dim(1)) {}

  void run() {
    for (int64_t t = begin; t < end; ++t)
      for (int64_t g = 0; g < groups; ++g)
        prepareRow(t, keyHead * groups + g);
    for (int64_t key = begin; key < end; key += attentionBlock)
      keyBlock(key, std::min(attentionBlock, end - key));
    for (int64_t t = begin; t < end; ++t)
      for (int64_t g = 0; g < groups; ++g) {
        int64_t head = keyHead * groups + g;
        storeRow(headRow<S>(args.dq, t, head), dqRow(t, head), headDim);
      }
  }

private:
  T *dqRow(int64_t token, int64_t head) const {
    return scratch.dq + (token * heads + head) * dp;
  }
  T &delta(int64_t token, int64_t head) const {
    return scratch.delta[token * heads + head];
  }

  /// Zeroes the row's sum and forms sum(o do).
  void prepareRow(int64_t token, int64_t head) {
    std::fill(dqRow(token, head), dqRow(token, head) + dp, T(0));
    loadRow(s.q, headRow<S>(args.o, token, head), headDim, dp);
    loadRow(s.dout, headRow<S>(args.dout, token, head), headDim, dp);
    delta(token, head) = dot(s.q, s.dout, dp);
  }

  void keyBlock(int64_t key, int64_t keys) {
    for (int64_t j = 0; j < keys; ++j)
      loadRow(s.k + j * dp, headRow<S>(args.k, key + j, keyHead), headDim, dp);
    transpose(s.kt, attentionBlock, headRow<S>(args.k, key, keyHead),
              args.k.strides[0], keys, headDim);
    transpose(s.vt, attentionBlock, headRow<S>(args.v, key, keyHead),
              args.v.strides[0], keys, headDim);
    std::fill(s.dk, s.dk + keys * dp, T(0));
    std::fill(s.dv, s.dv + keys * dp, T(0));
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t query = key; query < end; query += attentionBlock)
        addQueries(key, keys, query, std::min(attentionBlock, end - query),
                   keyHead * groups + g);
    for (int64_t j = 0; j < keys; ++j) {
      storeRow(headRow<S>(args.dk, key + j, keyHead), s.dk + j * dp, headDim);
      storeRow(headRow<S>(args.dv, key + j, keyHead), s.dv + j * dp, headDim);
    }
  }

  void addQueries(int64_t key, int64_t keys, int64_t query, int64_t rows,
                  int64_t head) {
    for (int64_t i = 0; i < rows; ++i) {
      loadRow(s.q + i * dp, headRow<S>(args.q, query + i, head), headDim, dp);
      loadRow(s.dout + i * dp, headRow<S>(args.dout, query + i, head), headDim,
              dp);
    }
    blockProduct<T>(rows, padded(keys), headDim,
                    {s.q, dp, 1, s.kt, attentionBlock, s.p, attentionBlock});
    blockProduct<T>(
        rows, padded(keys), headDim,
        {s.dout, dp, 1, s.vt, attentionBlock, s.ds, attentionBlock});
    for (int64_t i = 0; i < rows; ++i)
      softmaxGradient(i, query == key ? i + 1 : keys, padded(keys),
                      *headRow<T>(args.lse, query + i, head),
                      delta(query + i, head));
    blockProduct<T>(keys, dp, rows,
                    {s.p, 1, attentionBlock, s.dout, dp, s.dv, dp},
                    Update::Add);
    blockProduct<T>(keys, dp, rows,
                    {s.ds, 1, attentionBlock, s.q, dp, s.dk, dp}, Update::Add);
    blockProduct<T>(
        rows, dp, keys,
        {s.ds, attentionBlock, 1, s.k, dp, dqRow(query, head), heads * dp},
        Update::Add);
  }

  /// Turns one row of scores and of do v^T into p and ds.
  void softmaxGradient(int64_t row, int64_t visible, int64_t width, T lse,
                       T delta) {
    T *p = s.p + row * attentionBlock, *ds = s.ds + row * attentionBlock;
    T scale = static_cast<T>(args.scale);
    for (int64_t j = 0; j < width; ++j) {
      p[j] = j < visible ? exponential(p[j] * scale - lse) : T(0);
      ds[j] = j < visible ? scale * p[j] * (ds[j] - delta) : T(0);
    }
  }

  const AttentionGradArgs &args;
  const AttentionGradScratch<T> &scratch;
  const AttentionGradSlot<T> &s;
  const int64_t heads, headDim, dp, begin, end, keyHead, groups;
};

} // namespace

template <typename S>
static void run(const AttentionGradArgs &args, const LaunchContext &context) {
  AttentionDims dims(args);
  Carver carver(context.workspace.data());
  AttentionGradScratch<Wide<S>> scratch(carver, dims);
  Documents documents(args.cuSeqlens, dims.tokens);
  int64_t items = listDocuments(documents, scratch.items) * dims.keyHeads;
  parallelFor(items, scratch.slots.count(), [&](int64_t i, int64_t slotIndex) {
    int64_t document = scratch.items[i / dims.keyHeads].document;
    AttentionGradSlot<Wide<S>> slot = scratch.slots.get(slotIndex, dims);
    KeyHeadGradients<S>(args, scratch, slot, documents.begin(document),
                        documents.end(document), i % dims.keyHeads)
        .run();
  });
  for (const Buffer *out : {&args.dq, &args.dk, &args.dv})
    zeroTokensFrom(*out, documents.total());
}

void qwen::cpu::launch(const AttentionGradArgs &args,
                       const LaunchContext &context) {
  withStorage(args.q.dtype,
              [&](auto tag) { run<decltype(tag)>(args, context); });
}
