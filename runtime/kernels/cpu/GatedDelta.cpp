//===- GatedDelta.cpp - Chunked gated delta rule ---------------*- C++ -*-===//
//
// kernel.gated_delta. A piece of work is one value head of one document.
//
//===----------------------------------------------------------------------===//

#include "GatedDeltaChunkOps.h"
#include "runtime/kernels/cpu/Kernels.h"

using namespace qwen;
using namespace qwen::cpu;

/// o of one chunk; null is the zero state.
template <typename S, typename Ops, typename T>
static void writeOutput(const GatedDeltaArgs &args, Ops &ops,
                        const ChunkRange &range, const T *state, T *o) {
  ops.attend(range.rows);
  if (state) {
    blockProduct<T>(range.rows, ops.vp, ops.keyDim,
                    {ops.c.q, ops.kp, 1, state, ops.vp, o, ops.vp});
    for (int64_t i = 0; i < range.rows; ++i)
      for (int64_t j = i * ops.vp; j < (i + 1) * ops.vp; ++j)
        o[j] *= ops.scale * ops.c.fromStart[i];
  }
  blockProduct<T>(
      range.rows, ops.vp, range.rows,
      {ops.c.tokenByToken, ops.size, 1, ops.c.vd, ops.vp, o, ops.vp},
      state ? Update::Add : Update::Set);
  for (int64_t i = 0; i < range.rows; ++i)
    storeRow(headRow<S>(args.o, range.token + i, range.valueHead),
             o + i * ops.vp, ops.valueDim);
}

template <typename S>
static void runHead(const GatedDeltaArgs &args,
                    const GatedDeltaSlot<Wide<S>> &slot, int64_t begin,
                    int64_t end, int64_t valueHead) {
  using T = Wide<S>;
  GatedDeltaChunkOps<S, GatedDeltaArgs> ops(args, slot.chunk);
  int64_t keyHead = valueHead / (args.v.dim(1) / args.q.dim(1));
  const T *state = nullptr;
  for (int64_t t = begin; t < end; t += args.chunk) {
    ChunkRange range{t, std::min(args.chunk, end - t), keyHead, valueHead};
    ops.load(range);
    ops.solve(range.rows, state);
    writeOutput<S>(args, ops, range, state, slot.o);
    if (t + args.chunk < end)
      ops.advance(range.rows, state, slot.state);
    state = slot.state;
  }
}

template <typename S>
static void run(const GatedDeltaArgs &args, const LaunchContext &context) {
  GatedDeltaDims dims(args);
  Carver carver(context.workspace.data());
  GatedDeltaScratch<Wide<S>> scratch(carver, dims);
  Documents documents(args.cuSeqlens, dims.tokens);
  int64_t items = listDocuments(documents, scratch.items) * dims.valueHeads;
  parallelFor(items, scratch.slots.count(), [&](int64_t i, int64_t slot) {
    int64_t document = scratch.items[i / dims.valueHeads].document;
    runHead<S>(args, scratch.slots.get(slot, dims), documents.begin(document),
               documents.end(document), i % dims.valueHeads);
  });
  zeroTokensFrom(args.o, documents.total());
}

void qwen::cpu::launch(const GatedDeltaArgs &args,
                       const LaunchContext &context) {
  withStorage(args.q.dtype,
              [&](auto tag) { run<decltype(tag)>(args, context); });
}
