//===- GatedDeltaParts.cuh - What the gated delta kernels share -*- CUDA
//-*-===//
//
// The scratch that the kernels hand each other, and the host functions that
// enqueue each of them. C = 64 tokens a chunk, K = V = 128. Per chunk and value
// head, G the running sum of log2(e) g inside the chunk:
//
//   A  = (I + strictLower(beta k k^T * D))^-1 * D     "system"    [C, C] bf16
//   P  = scale (q k^T * D), lower                     "attended"  [C, C] bf16
//   w  = beta (v - 2^G k S);  vd = A w
//   o  = scale 2^G (q S) + P vd;  S' = 2^GC S + k^T (2^(GC - G) vd)
//
// and in the backward, dS the gradient after the chunk:
//
//   x  = A^T (2^(GC - G) k dS + P^T do);  dv = beta x
//   dS <- 2^GC dS - k^T (2^G beta x) + q^T (scale 2^G do)
//
// Matrices lie as images: the bytes of the swizzled shared-memory tile, so that
// one bulk copy moves them. Rows behind a document's end are zeros.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_GATEDDELTAPARTS_CUH
#define QWEN_RUNTIME_KERNELS_CUDA_GATEDDELTAPARTS_CUH

#include "Hopper.cuh"
#include "qwen/Plan/Kernels.h"
#include "qwen/Plan/Scratch.h"

namespace qwen::cuda {

using Bf16 = __nv_bfloat16;

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

/// Rows [T, heads] of a strided operand.
template <typename T> struct HeadRows {
  T *data;
  int64_t tokenStride, headStride; ///< in elements
  QWEN_DEVICE T *row(int64_t token, int64_t head) const {
    return data + token * tokenStride + head * headStride;
  }
};
template <typename T> HeadRows<T> headRows(const Buffer &buffer) {
  return {buffer.as<T>(), buffer.strides[0], buffer.strides[1]};
}
template <typename T> HeadRows<const T> headRows(const ConstBuffer &buffer) {
  return {buffer.as<T>(), buffer.strides[0], buffer.strides[1]};
}

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

/// Part of an output that no document covers, to be zeroed.
struct TailRows {
  std::byte *data;
  int64_t tokenStride, headStride; ///< in bytes
  int heads, rowBytes;
};
struct Tails {
  TailRows rows[5];
  int count;
};
inline TailRows tailRows(const Buffer &buffer) {
  int64_t bytes = dtypeBytes(buffer.dtype);
  int inner = buffer.rank == 3 ? int(buffer.dim(2)) : 1;
  return {buffer.as<std::byte>(), buffer.strides[0] * bytes,
          buffer.strides[1] * bytes, int(buffer.dim(1)), int(inner * bytes)};
}

/// Operands of the preparation.
struct PrepareOperands {
  HeadRows<const Bf16> q, k, beta;
  HeadRows<const float> g;
  float scale, eps;
};

// Enqueue one kernel each, in the order of their use.
cudaError_t enqueueSchedule(const GatedDeltaSizes &, const GatedDeltaBuffers &,
                            const int *cuSeqlens, const Tails &, cudaStream_t);
cudaError_t enqueuePrepare(const GatedDeltaSizes &, const GatedDeltaBuffers &,
                           const PrepareOperands &, bool keepNorms,
                           cudaStream_t);
/// o of every chunk.
cudaError_t enqueueOutputScan(const GatedDeltaSizes &,
                              const GatedDeltaBuffers &, HeadRows<const Bf16> v,
                              HeadRows<Bf16> o, float scale, cudaStream_t);
/// State before every chunk, and vd.
cudaError_t enqueueStateScan(const GatedDeltaSizes &, const GatedDeltaBuffers &,
                             HeadRows<const Bf16> v, cudaStream_t);
/// Gradient of the state after every chunk, x, and dv.
cudaError_t enqueueGradScan(const GatedDeltaSizes &, const GatedDeltaBuffers &,
                            HeadRows<const Bf16> dout, HeadRows<Bf16> dv,
                            float scale, cudaStream_t);

/// Multiprocessors of the current device.
int multiprocessors();

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_GATEDDELTAPARTS_CUH
