//===- GatedDeltaScratch.h - Scratch of the gated delta kernels -*- C++ -*-===//
//
// Sizes and what the kernels hand each other; the formulas are in
// GatedDeltaParts.cuh. Includes no CUDA, so that a compiler can ask for sizes.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_GATEDDELTASCRATCH_H
#define QWEN_RUNTIME_KERNELS_CUDA_GATEDDELTASCRATCH_H

#include "qwen/Plan/Kernels.h"
#include "qwen/Plan/Scratch.h"

#include <algorithm>

namespace qwen::cuda {

inline constexpr int chunkSize = 64;          ///< tokens of a chunk
inline constexpr int headDim = 128;           ///< K and V
inline constexpr int maxGroups = 4;           ///< value heads of a key head
inline constexpr uint32_t panelBytes = 8192;  ///< [64 tokens, 64]
inline constexpr uint32_t rowsBytes = 16384;  ///< [64 tokens, 128]
inline constexpr uint32_t squareBytes = 8192; ///< [64 tokens, 64 tokens]
inline constexpr uint32_t stateBytes = 32768; ///< [128 v, 128 k]
inline constexpr uint32_t statePanelBytes = 16384;
inline constexpr uint32_t vectorBytes = 1024; ///< GateVectors

/// Gates of one chunk and value head, as the kernels read them. Rows behind the
/// end have G of the last row and beta 0.
struct GateVectors {
  float fromStart[chunkSize]; ///< 2^G
  float toEnd[chunkSize];     ///< 2^(GC - G)
  float beta[chunkSize];
  float g[chunkSize]; ///< G
};
static_assert(sizeof(GateVectors) == vectorBytes);

/// One chunk.
struct ChunkEntry {
  int token, rows;
  int isFirst, isLast; ///< of its document
};

/// One document that is not empty, longest first.
struct DocumentEntry {
  int token, length, chunk, chunks;
};

/// Written by the schedule kernel.
struct ScheduleHeader {
  int chunks, documents;
  int nextScan, nextGradScan; ///< next piece of work of the scans
};

struct GatedDeltaSizes {
  int tokens, keyHeads, valueHeads, groups, documents, maxChunks;

  template <typename Args>
  explicit GatedDeltaSizes(const Args &args)
      : tokens(int(args.q.dim(0))), keyHeads(int(args.q.dim(1))),
        valueHeads(int(args.v.dim(1))), groups(valueHeads / keyHeads),
        documents(int(args.cuSeqlens.dim(0) - 1)),
        // A document adds at most one chunk that is not full.
        maxChunks(tokens / chunkSize + std::min(documents, tokens)) {}
};

/// What the kernels of one launch hand each other.
struct GatedDeltaBuffers {
  ScheduleHeader *header;
  ChunkEntry *chunks;           ///< [maxChunks]
  DocumentEntry *sorted;        ///< [documents]
  DocumentEntry *documents;     ///< as in cu_seqlens [documents]
  std::byte *q, *k;             ///< images of the normalised rows [chunk, Hk]
  float *qScale, *kScale;       ///< 1 / norm [chunk, Hk, C]
  std::byte *system, *attended; ///< images [chunk, Hv]
  GateVectors *gates;           ///< [chunk, Hv]
  // Of the backward alone.
  std::byte *states, *dstates; ///< images before / gradients after [chunk, Hv]
  std::byte *vd, *x;           ///< images [chunk, Hv]

  GatedDeltaBuffers(Carver &carver, const GatedDeltaSizes &sizes,
                    bool isBackward) {
    int64_t keys = int64_t(sizes.maxChunks) * sizes.keyHeads;
    int64_t values = int64_t(sizes.maxChunks) * sizes.valueHeads;
    int64_t backward = isBackward ? values : 0;
    header = carver.take<ScheduleHeader>(1);
    chunks = carver.take<ChunkEntry>(sizes.maxChunks);
    sorted = carver.take<DocumentEntry>(sizes.documents);
    documents = carver.take<DocumentEntry>(sizes.documents);
    q = carver.take<std::byte>(keys * rowsBytes);
    k = carver.take<std::byte>(keys * rowsBytes);
    qScale = carver.take<float>(isBackward ? keys * chunkSize : 0);
    kScale = carver.take<float>(isBackward ? keys * chunkSize : 0);
    system = carver.take<std::byte>(values * squareBytes);
    attended = carver.take<std::byte>(values * squareBytes);
    gates = carver.take<GateVectors>(values);
    states = carver.take<std::byte>(backward * stateBytes);
    dstates = carver.take<std::byte>(backward * stateBytes);
    vd = carver.take<std::byte>(backward * rowsBytes);
    x = carver.take<std::byte>(backward * rowsBytes);
  }
};

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_GATEDDELTASCRATCH_H
