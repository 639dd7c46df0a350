//===- AttentionParts.cuh - What the attention kernels share ---*- CUDA -*-===//
//
// Operands and device code; every product is of 64 rows. Sizes and scratch are
// in AttentionScratch.h.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_ATTENTIONPARTS_CUH
#define QWEN_RUNTIME_KERNELS_CUDA_ATTENTIONPARTS_CUH

#include "AttentionScratch.h"
#include "Hopper.cuh"
#include "RaggedTensor.cuh"

namespace qwen::cuda {

inline constexpr int attentionThreads = 384; ///< two warpgroups and a loader
inline constexpr int attentionLoaderRegisters = 40;
inline constexpr int attentionRegisters = 232;
inline constexpr float log2OfE = 1.4426950408889634f;

/// Elements [token, head] of a strided operand.
struct HeadValues {
  float *data;
  int64_t tokenStride, headStride;
};

/// Part of an output that no document covers, to be zeroed.
struct UncoveredRows {
  std::byte *data;
  int64_t tokenStride, headStride; ///< in bytes
  int heads, units, unitBytes;     ///< units of a row: 16 bytes, or 4
};
struct UncoveredOutputs {
  UncoveredRows rows[3];
  int count;
};
inline UncoveredRows uncoveredRows(const Buffer &buffer) {
  int64_t bytes = dtypeBytes(buffer.dtype);
  int rowBytes = int((buffer.rank == 3 ? buffer.dim(2) : 1) * bytes);
  int unit = rowBytes % 16 == 0 ? 16 : 4;
  return {buffer.as<std::byte>(),    buffer.strides[0] * bytes,
          buffer.strides[1] * bytes, int(buffer.dim(1)),
          rowBytes / unit,           unit};
}

/// Place in a ring of tiles.
template <int count> struct TilePlace {
  int stage = 0;
  uint32_t phase = 0;
  QWEN_DEVICE void advance() {
    if (++stage == count) {
      stage = 0;
      phase ^= 1;
    }
  }
};

/// Barriers of a ring of `count` tiles.
template <int count> struct TileBarriers {
  uint64_t full[count], empty[count];

  /// By one thread; the threads of `readers` warps free a tile. Each arrives
  /// for itself: an arrival for the whole warp is no faster here, and tools
  /// that look for races follow single threads.
  QWEN_DEVICE void init(int readers) {
    for (int i = 0; i < count; ++i) {
      barrierInit(smemAddress(&full[i]), 1);
      barrierInit(smemAddress(&empty[i]), 32 * readers);
    }
  }
  QWEN_DEVICE void waitFull(const TilePlace<count> &place) {
    barrierWait(smemAddress(&full[place.stage]), place.phase);
  }
  QWEN_DEVICE void waitEmpty(const TilePlace<count> &place) {
    barrierWait(smemAddress(&empty[place.stage]), place.phase ^ 1);
  }
  QWEN_DEVICE void release(const TilePlace<count> &place) {
    barrierArrive(smemAddress(&empty[place.stage]));
  }
};

/// Row of accumulator register i of this thread, and the column of the first
/// register of each group of four.
QWEN_DEVICE int registerRow(int i) {
  int thread = threadIdx.x % 128;
  return thread / 32 * 16 + thread % 32 / 4 + (i & 2) * 4;
}
QWEN_DEVICE int registerColumn(int i) {
  return i / 4 * 8 + threadIdx.x % 4 * 2 + (i & 1);
}

/// Stores an accumulator [64, D] as bf16 through `tile` to the rows of a
/// document; the thread that issues the store waits until `tile` is free again.
template <int D>
QWEN_DEVICE void storeTile(const float (&d)[D / 2], SmemAddr tile,
                           const RaggedTensor &out, DocumentRows document,
                           int row, int head, int barrierId) {
  uint32_t lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
  // The tile may have been an operand of the other warps' products.
  namedSync(barrierId, 128);
#pragma unroll
  for (int j = 0; j < D / 16; ++j) {
    uint32_t a[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      a[i] = packBf16(d[8 * j + 2 * i], d[8 * j + 2 * i + 1]);
    storeMatrices(tile + tileOffset(16 * warp + lane % 16,
                                    16 * j + lane / 16 * 8, blockPanelBytes),
                  a);
  }
  fenceProxyAsync();
  namedSync(barrierId, 128);
  if (threadIdx.x % 128 != 0)
    return;
  storeRows(out, document, row, head, tile);
  bulkStoreCommit();
  bulkStoreWaitRead();
}

// Enqueue one kernel each, in the order of their use.
cudaError_t enqueueAttentionSchedule(const AttentionSizes &,
                                     const AttentionBuffers &,
                                     const int *cuSeqlens, bool isBackward,
                                     const UncoveredOutputs &, cudaStream_t);
/// Gradients of keys and values, and the squares of ds, of one pass.
cudaError_t enqueueKeyGradients(const AttentionGradArgs &,
                                const AttentionSizes &,
                                const AttentionBuffers &, int pass,
                                cudaStream_t);
/// Gradients of queries of one pass.
cudaError_t enqueueQueryGradients(const AttentionGradArgs &,
                                  const AttentionSizes &,
                                  const AttentionBuffers &, int pass,
                                  cudaStream_t);

/// Multiprocessors of the current device.
int multiprocessors();

/// Calls f<D>() with the head dimension of q: 64, 128 or 256.
template <typename F> cudaError_t withHeadDim(int64_t headDim, F &&f) {
  if (headDim == 256)
    return f.template operator()<256>();
  if (headDim == 128)
    return f.template operator()<128>();
  return f.template operator()<64>();
}

/// Launches a persistent kernel, a block a multiprocessor.
template <typename... Parameters, typename... Values>
cudaError_t launchPersistent(void (*kernel)(Parameters...), size_t sharedBytes,
                             cudaStream_t stream, const Values &...values) {
  cudaError_t error = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(sharedBytes));
  if (error != cudaSuccess)
    return error;
  kernel<<<multiprocessors(), attentionThreads, sharedBytes, stream>>>(
      values...);
  return cudaGetLastError();
}

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_ATTENTIONPARTS_CUH
