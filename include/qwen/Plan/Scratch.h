//===- Scratch.h - Scratch layout of kernels -------------------*- C++ -*-===//
//
// What each CPU kernel keeps in its workspace, and what groups and the
// optimizer keep on a GPU too. The same constructors measure the bytes
// (Workspace.cpp, with a null base) and hand out the pointers (the launchers),
// so that the two cannot disagree. `T` is the accumulation type.
//
// A slot is the private scratch of one worker at a time. Slots are bounded by
// a constant and by the work there is, never by the machine's thread count.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_PLAN_SCRATCH_H
#define QWEN_PLAN_SCRATCH_H

#include "qwen/Plan/Kernels.h"

#include <algorithm>
#include <cstddef>

namespace qwen {

/// Most workers of one kernel launch.
inline constexpr int64_t maxWorkers = 32;
/// Scratch rows are padded to whole SIMD vectors of every element type.
inline constexpr int64_t scratchPad = 16;

constexpr int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
/// The least multiple of `unit` that is not below `n`.
constexpr int64_t roundUp(int64_t n, int64_t unit) {
  return ceilDiv(n, unit) * unit;
}
constexpr int64_t padded(int64_t n) { return roundUp(n, scratchPad); }

/// Hands out consecutive 64-byte aligned pieces; with a null base it only
/// counts.
class Carver {
public:
  explicit Carver(std::byte *base = nullptr) : base(base) {}
  template <typename T> T *take(int64_t count) {
    std::byte *piece = base ? base + offset : nullptr;
    offset += roundUp(count * static_cast<int64_t>(sizeof(T)), 64);
    return reinterpret_cast<T *>(piece);
  }
  int64_t bytes() const { return offset; }

private:
  std::byte *base;
  int64_t offset = 0;
};

/// The bytes of a layout: what Layout(Carver &, args...) takes.
template <typename Layout, typename... Args>
int64_t carvedBytes(const Args &...args) {
  Carver measure;
  Layout(measure, args...);
  return measure.bytes();
}

/// embedding_grad_shard: tokens sorted by id.
struct TokenOrder {
  int32_t *tokens; ///< [T]
  TokenOrder(Carver &carver, const EmbeddingGradShardArgs &args)
      : tokens(carver.take<int32_t>(args.ids.dim(0))) {}
};

/// `count` slots of equal layout: take(slot) carves the slot's pieces.
template <typename Slot> class Slots {
public:
  /// `args` are passed to Slot(Carver &, args...).
  template <typename... Args>
  Slots(Carver &carver, int64_t count, Args... args) : number(count) {
    stride = carvedBytes<Slot>(args...);
    base = carver.take<std::byte>(stride * count);
  }
  template <typename... Args> Slot get(int64_t slot, Args... args) const {
    Carver carver(base + slot * stride);
    return Slot(carver, args...);
  }
  int64_t count() const { return number; }

private:
  std::byte *base;
  int64_t stride = 0;
  int64_t number;
};

//===----------------------------------------------------------------------===//
// Matrix products
//===----------------------------------------------------------------------===//

/// Tiles of c = op(a) op(b) and how deep one packed step is.
struct GemmTiling {
  int64_t rows, cols, depth;
  int64_t tilesM, tilesN;

  GemmTiling(int64_t m, int64_t n, int64_t k)
      : rows(std::min<int64_t>(128, m)),
        cols(std::min<int64_t>(256, padded(n))),
        depth(std::min<int64_t>(256, k)) {
    // Enough tiles for every worker where the matrix is small, but not so
    // small that packing outweighs the product.
    if (ceilDiv(m, rows) * ceilDiv(n, cols) < maxWorkers && cols > 128)
      cols = 128;
    if (ceilDiv(m, rows) * ceilDiv(n, cols) < maxWorkers && rows > 64)
      rows = 64;
    tilesM = ceilDiv(m, rows);
    tilesN = ceilDiv(n, cols);
  }
  int64_t slots() const { return std::min(maxWorkers, tilesM * tilesN); }
};

/// Packed operands and the accumulator tile.
template <typename T> struct GemmSlot {
  T *a, *b, *c;
  GemmSlot(Carver &carver, const GemmTiling &tiling)
      : a(carver.take<T>(std::max(tiling.rows * padded(tiling.depth),
                                  padded(tiling.rows) * tiling.depth))),
        // Whole panels of 32 columns, whatever the type.
        b(carver.take<T>(tiling.depth * roundUp(tiling.cols, 32))),
        c(carver.take<T>(tiling.rows * padded(tiling.cols))) {}
};

template <typename T> struct GemmScratch {
  Slots<GemmSlot<T>> slots;
  GemmScratch(Carver &carver, const GemmTiling &tiling)
      : slots(carver, tiling.slots(), tiling) {}
};

//===----------------------------------------------------------------------===//
// Convolution
//===----------------------------------------------------------------------===//

/// Tap gradients are summed over blocks of this many tokens, then the blocks
/// are added in order.
inline constexpr int64_t convTokenBlock = 256;

template <typename T> struct ConvGradScratch {
  T *partials; ///< [blocks, C, width]
  ConvGradScratch(Carver &carver, int64_t tokens, int64_t channels,
                  int64_t width)
      : partials(carver.take<T>(ceilDiv(tokens, convTokenBlock) * channels *
                                width)) {}
};

//===----------------------------------------------------------------------===//
// Document kernels
//===----------------------------------------------------------------------===//

/// A piece of work of a document kernel.
struct DocumentItem {
  int32_t document, block;
};

/// Sizes that the gated-delta scratch depends on.
struct GatedDeltaDims {
  int64_t tokens, keyHeads, valueHeads, keyDim, valueDim, chunk, documents;

  template <typename Args>
  explicit GatedDeltaDims(const Args &args)
      : tokens(args.q.dim(0)), keyHeads(args.q.dim(1)),
        valueHeads(args.v.dim(1)), keyDim(args.q.dim(2)),
        valueDim(args.v.dim(2)), chunk(args.chunk),
        documents(args.cuSeqlens.dim(0) - 1) {}
  int64_t groups() const { return valueHeads / keyHeads; }
  int64_t maxChunks() const { return ceilDiv(tokens, chunk); }
};

/// One chunk of one head. Matrices are row-major with padded rows; C tokens,
/// K key and V value dimensions.
template <typename T> struct GatedDeltaChunk {
  T *q, *k, *kt;        ///< normalised q, k [C, K]; k transposed [K, C]
  T *qScale, *kScale;   ///< 1 / norm of each row [C]
  T *v;                 ///< [C, V]
  T *beta, *g;          ///< [C]
  T *decay;             ///< exp of gates from j+1 to i, i >= j [C, C]
  T *fromStart, *toEnd; ///< decay from the chunk's start, to its end [C]
  T *kk, *qk;           ///< k k^T and q k^T [C, C]
  T *lower;             ///< strict lower part of the unit system [C, C]
  T *raw;               ///< v - decayed k S [C, V]
  T *vd;                ///< solution of the unit system [C, V]
  T *tokenByValue;      ///< temporary [C, V]
  T *tokenByToken;      ///< temporary [C, C]
  GatedDeltaChunk(Carver &carver, const GatedDeltaDims &dims) {
    int64_t c = dims.chunk, kp = padded(dims.keyDim),
            vp = padded(dims.valueDim);
    for (T **rows : {&q, &k})
      *rows = carver.take<T>(c * kp);
    kt = carver.take<T>(kp * c);
    for (T **column : {&qScale, &kScale, &beta, &g, &fromStart, &toEnd})
      *column = carver.take<T>(c);
    for (T **rows : {&v, &raw, &vd, &tokenByValue})
      *rows = carver.take<T>(c * vp);
    for (T **square : {&decay, &kk, &qk, &lower, &tokenByToken})
      *square = carver.take<T>(c * c);
  }
};

template <typename T> struct GatedDeltaSlot {
  GatedDeltaChunk<T> chunk;
  T *state; ///< [K, V]
  T *o;     ///< [C, V]
  GatedDeltaSlot(Carver &carver, const GatedDeltaDims &dims)
      : chunk(carver, dims),
        state(carver.take<T>(padded(dims.keyDim) * padded(dims.valueDim))),
        o(carver.take<T>(dims.chunk * padded(dims.valueDim))) {}
};

template <typename T> struct GatedDeltaScratch {
  DocumentItem *items; ///< documents, longest first
  Slots<GatedDeltaSlot<T>> slots;
  GatedDeltaScratch(Carver &carver, const GatedDeltaDims &dims)
      : items(carver.take<DocumentItem>(dims.documents)),
        slots(carver, std::min(maxWorkers, dims.documents * dims.valueHeads),
              dims) {}
};

template <typename T> struct GatedDeltaGradSlot {
  GatedDeltaChunk<T> chunk;
  T *states;              ///< state before each chunk [chunks, K, V]
  T *dstate, *transposed; ///< [K, V]; a state transposed [V, K]
  T *dout, *dvd, *x, *dv; ///< [C, V]
  T *vdt;                 ///< vd transposed [V, C]
  T *dq, *dk, *part;      ///< [C, K]
  T *dqk, *dkk, *pairs;   ///< [C, C]
  T *dg, *dbeta;          ///< [C]
  GatedDeltaGradSlot(Carver &carver, const GatedDeltaDims &dims)
      : chunk(carver, dims) {
    int64_t c = dims.chunk, kp = padded(dims.keyDim),
            vp = padded(dims.valueDim);
    states = carver.take<T>(dims.maxChunks() * kp * vp);
    dstate = carver.take<T>(kp * vp);
    transposed = carver.take<T>(kp * vp);
    for (T **rows : {&dout, &dvd, &x, &dv})
      *rows = carver.take<T>(c * vp);
    vdt = carver.take<T>(vp * c);
    for (T **rows : {&dq, &dk, &part})
      *rows = carver.take<T>(c * kp);
    for (T **square : {&dqk, &dkk, &pairs})
      *square = carver.take<T>(c * c);
    for (T **column : {&dg, &dbeta})
      *column = carver.take<T>(c);
  }
};

template <typename T> struct GatedDeltaGradScratch {
  DocumentItem *items;
  T *dq, *dk; ///< sums over the value heads of a key head [T, Hk, K]
  Slots<GatedDeltaGradSlot<T>> slots;
  GatedDeltaGradScratch(Carver &carver, const GatedDeltaDims &dims)
      : items(carver.take<DocumentItem>(dims.documents)),
        dq(carver.take<T>(groupElements(dims))),
        dk(carver.take<T>(groupElements(dims))),
        slots(carver, std::min(maxWorkers, dims.documents * dims.keyHeads),
              dims) {}

private:
  static int64_t groupElements(const GatedDeltaDims &dims) {
    // One value head a key head is written out straight from its chunk.
    if (dims.groups() == 1)
      return 0;
    return dims.tokens * dims.keyHeads * padded(dims.keyDim);
  }
};

/// Query rows and key rows of one attention block.
inline constexpr int64_t attentionBlock = 64;

struct AttentionDims {
  int64_t tokens, queryHeads, keyHeads, headDim, documents;

  template <typename Args>
  explicit AttentionDims(const Args &args)
      : tokens(args.q.dim(0)), queryHeads(args.q.dim(1)),
        keyHeads(args.k.dim(1)), headDim(args.q.dim(2)),
        documents(args.cuSeqlens.dim(0) - 1) {}
  int64_t groups() const { return queryHeads / keyHeads; }
  /// Most blocks of all documents together.
  int64_t maxBlocks() const {
    return tokens / attentionBlock + std::min(documents, tokens);
  }
};

template <typename T> struct AttentionSlot {
  T *q, *o;         ///< rows of all heads of the group [G B, D]
  T *maximum, *sum; ///< of each row [G B]
  T *kt;            ///< keys transposed [D, B]
  T *v;             ///< [B, D]
  T *scores;        ///< [G B, B]
  AttentionSlot(Carver &carver, const AttentionDims &dims) {
    int64_t rows = dims.groups() * attentionBlock, d = padded(dims.headDim);
    for (T **matrix : {&q, &o})
      *matrix = carver.take<T>(rows * d);
    for (T **column : {&maximum, &sum})
      *column = carver.take<T>(rows);
    kt = carver.take<T>(d * attentionBlock);
    v = carver.take<T>(attentionBlock * d);
    scores = carver.take<T>(rows * attentionBlock);
  }
};

template <typename T> struct AttentionScratch {
  DocumentItem *items;
  Slots<AttentionSlot<T>> slots;
  AttentionScratch(Carver &carver, const AttentionDims &dims)
      : items(carver.take<DocumentItem>(dims.maxBlocks())),
        slots(carver, std::min(maxWorkers, dims.maxBlocks() * dims.keyHeads),
              dims) {}
};

template <typename T> struct AttentionGradSlot {
  T *k, *dk, *dv, *q, *dout; ///< [B, D]
  T *kt, *vt;                ///< transposed [D, B]
  T *p, *ds;                 ///< [B, B]
  AttentionGradSlot(Carver &carver, const AttentionDims &dims) {
    int64_t d = padded(dims.headDim);
    for (T **matrix : {&k, &dk, &dv, &q, &dout, &kt, &vt})
      *matrix = carver.take<T>(attentionBlock * d);
    for (T **square : {&p, &ds})
      *square = carver.take<T>(attentionBlock * attentionBlock);
  }
};

template <typename T> struct AttentionGradScratch {
  DocumentItem *items;
  T *dq;    ///< [T, Hq, D]
  T *delta; ///< sum of o dout [T, Hq]
  Slots<AttentionGradSlot<T>> slots;
  AttentionGradScratch(Carver &carver, const AttentionDims &dims)
      : items(carver.take<DocumentItem>(dims.documents)),
        dq(carver.take<T>(dims.tokens * dims.queryHeads *
                          padded(dims.headDim))),
        delta(carver.take<T>(dims.tokens * dims.queryHeads)),
        slots(carver, std::min(maxWorkers, dims.documents * dims.keyHeads),
              dims) {}
};

//===----------------------------------------------------------------------===//
// Loss
//===----------------------------------------------------------------------===//

/// Tokens whose logits exist at a time: about 64 MiB of float32 logits.
constexpr int64_t lossTokenBlock(int64_t vocabulary) {
  int64_t rows = (int64_t(16) << 20) / vocabulary / 16 * 16;
  return std::clamp<int64_t>(rows, 16, 256);
}

template <typename T> struct LossScratch {
  int32_t *tokens; ///< the supervised tokens of the block
  T *x;            ///< a block's hidden states [B, H]
  T *logits;       ///< [B, V]
  T *dx;           ///< [B, H]; null in the forward kernel
  std::byte *gemm; ///< scratch of one matrix product at a time
  int64_t gemmBytes;
  LossScratch(Carver &carver, int64_t hidden, int64_t vocabulary,
              bool gradient) {
    int64_t block = lossTokenBlock(vocabulary);
    tokens = carver.take<int32_t>(block);
    x = carver.take<T>(block * padded(hidden));
    logits = carver.take<T>(block * padded(vocabulary));
    dx = gradient ? carver.take<T>(block * padded(hidden)) : nullptr;
    gemmBytes = gemmScratch(block, vocabulary, hidden);
    if (gradient)
      gemmBytes = std::max({gemmBytes, gemmScratch(block, hidden, vocabulary),
                            gemmScratch(vocabulary, hidden, block)});
    gemm = carver.take<std::byte>(gemmBytes);
  }

private:
  static int64_t gemmScratch(int64_t m, int64_t n, int64_t k) {
    return carvedBytes<GemmScratch<T>>(GemmTiling(m, n, k));
  }
};

//===----------------------------------------------------------------------===//
// Groups and the optimizer
//===----------------------------------------------------------------------===//

/// Most operands of a group.
inline constexpr int64_t maxGroupOperands = 256;

/// Column sums of all blocks of a group.
struct GroupScratch {
  std::byte *partials;
  int64_t blocks;
  int64_t blockBytes; ///< from one block's area to the next
  GroupScratch(Carver &carver, const GroupArgs &args)
      : blocks(ceilDiv(args.rows, args.rowsPerBlock)), blockBytes(0) {
    for (int64_t i : args.columnSums)
      blockBytes += args.outputs[i].bytes();
    blockBytes = roundUp(blockBytes, 64);
    partials = carver.take<std::byte>(blocks * blockBytes);
  }
};

/// Gradient squares are summed over blocks of this many elements.
inline constexpr int64_t gradNormBlock = 65536;

struct GradNormScratch {
  double *partials;
  int64_t blocks = 0;
  GradNormScratch(Carver &carver, const std::vector<ConstBuffer> &grads) {
    for (const ConstBuffer &grad : grads)
      blocks += ceilDiv(grad.elements(), gradNormBlock);
    partials = carver.take<double>(blocks);
  }
};

} // namespace qwen

#endif // QWEN_PLAN_SCRATCH_H
