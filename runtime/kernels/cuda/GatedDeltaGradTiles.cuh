//===- GatedDeltaGradTiles.cuh - Frame of the gradient kernel --*- CUDA -*-===//
//
// The shared memory through which the warpgroups of the kernel in
// GatedDeltaGrad.cu meet, and their views of accumulators. All walk the same
// pieces of work and value heads, counted by `step`; tiles and sums of a value
// head alternate between two stages, states have one.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_GATEDDELTAGRADTILES_CUH
#define QWEN_RUNTIME_KERNELS_CUDA_GATEDDELTAGRADTILES_CUH

#include "GatedDeltaParts.cuh"

#include <cuda_fp16.h>

namespace qwen::cuda {

struct GradOperands {
  HeadRows<const Bf16> v, dout;
  HeadRows<Bf16> dq, dk;
  HeadRows<float> dg;
  HeadRows<Bf16> dbeta;
  float scale;
};

/// Tiles of one value head.
struct HeadTiles {
  std::byte vd[rowsBytes], x[rowsBytes], dout[rowsBytes];
  GateVectors gates;
};

/// Sums of one value head by token, without beta where marked.
struct GateSums {
  float alongQ[chunkSize];     ///< q.dq'
  float alongK[chunkSize];     ///< k.dk'
  float alongState[chunkSize]; ///< k.dk'', without beta
  float rowsZ[chunkSize], columnsZ[4][chunkSize];
  float rowsN[chunkSize]; ///< without beta
  float columnsN[4][chunkSize];
};

struct GradSmem {
  std::byte k[rowsBytes], q[rowsBytes];
  HeadTiles heads[2];
  std::byte state[stateBytes], dstate[stateBytes];
  std::byte dp[squareBytes], n[squareBytes];
  GateSums sums[2];
  float along[chunkSize];       ///< x.v
  float dots[4];                ///< <S, dS> by warp
  uint64_t rowsFull, rowsEmpty; ///< q and k
  uint64_t headFull[2], headEmpty[2];
  uint64_t stateFull, stateEmpty, dstateFull, dstateEmpty;
  uint64_t dpFull, dpEmpty;
  uint64_t sumsFull[2], sumsEmpty[2];

  /// By one thread. Arrivals are counted in warps, loads as one more.
  QWEN_DEVICE void init() {
    barrierInit(smemAddress(&rowsFull), 1);
    barrierInit(smemAddress(&rowsEmpty), 8 * warpArrivals);
    for (int i = 0; i < 2; ++i) {
      barrierInit(smemAddress(&headFull[i]), 1 + 4 * warpArrivals);
      barrierInit(smemAddress(&headEmpty[i]), 12 * warpArrivals);
    }
    barrierInit(smemAddress(&stateFull), 1);
    barrierInit(smemAddress(&stateEmpty), 12 * warpArrivals);
    barrierInit(smemAddress(&dstateFull), 1);
    barrierInit(smemAddress(&dstateEmpty), 8 * warpArrivals);
    barrierInit(smemAddress(&dpFull), 4 * warpArrivals);
    barrierInit(smemAddress(&dpEmpty), 4 * warpArrivals);
    for (int i = 0; i < 2; ++i) {
      barrierInit(smemAddress(&sumsFull[i]), 8 * warpArrivals);
      barrierInit(smemAddress(&sumsEmpty[i]), 4 * warpArrivals);
    }
    barrierInitFence();
  }
};

struct GradContext {
  GradSmem &smem;
  const GatedDeltaSizes &sizes;
  const GatedDeltaBuffers &buffers;
  const GradOperands &operands;
  int items; ///< chunks times key heads
};

QWEN_DEVICE void waitFor(const uint64_t &barrier, int phase) {
  barrierWait(smemAddress(&barrier), phase & 1);
}
/// Until the buffer of use number `use` has been emptied of the one before.
QWEN_DEVICE void waitEmpty(const uint64_t &barrier, int use) {
  barrierWait(smemAddress(&barrier), (use & 1) ^ 1);
}
QWEN_DEVICE void release(uint64_t &barrier) {
  barrierArriveWarp(smemAddress(&barrier));
}

//===----------------------------------------------------------------------===//
// Accumulators: rows and columns of this thread
//===----------------------------------------------------------------------===//

/// First of the two rows of this thread; the other is 8 further.
QWEN_DEVICE int accumulatorRow() {
  return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
}
/// First of the two columns of register 4 j.
QWEN_DEVICE int accumulatorColumn(int j) { return 8 * j + threadIdx.x % 4 * 2; }
QWEN_DEVICE float sumQuad(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

/// Dots of the rows of d [64, 128] with those of a tile.
QWEN_DEVICE void rowDots(float (&dots)[2], const float (&d)[64],
                         const std::byte *tile) {
  int row = accumulatorRow();
  dots[0] = dots[1] = 0;
#pragma unroll
  for (int j = 0; j < 16; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t pair = *reinterpret_cast<const uint32_t *>(
          tile + tileOffset(row + 8 * half, accumulatorColumn(j), panelBytes));
      dots[half] += d[4 * j + 2 * half] * lowBf16(pair) +
                    d[4 * j + 2 * half + 1] * highBf16(pair);
    }
  dots[0] = sumQuad(dots[0]);
  dots[1] = sumQuad(dots[1]);
}

/// Writes one value a row.
QWEN_DEVICE void writeRowValues(float *out, float first, float second) {
  if (threadIdx.x % 4 == 0) {
    out[accumulatorRow()] = first;
    out[accumulatorRow() + 8] = second;
  }
}

/// Sends half of 2 `kept` sums to the lane that differs in `bit` and adds what
/// comes back to the other half.
template <int kept> QWEN_DEVICE void halveSums(float (&sums)[16], int bit) {
  bool upper = threadIdx.x & bit;
#pragma unroll
  for (int i = 0; i < kept; ++i) {
    float sent = upper ? sums[i] : sums[i + kept];
    float mine = upper ? sums[i + kept] : sums[i];
    sums[i] = mine + __shfl_xor_sync(~0u, sent, bit);
  }
}

/// Sums of the columns over the 16 rows of each warp.
QWEN_DEVICE void writeColumnSums(float (&out)[4][chunkSize],
                                 const float (&d)[32]) {
  int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
  float sums[16];
#pragma unroll
  for (int i = 0; i < 16; ++i)
    sums[i] = d[i / 2 * 4 + i % 2] + d[i / 2 * 4 + 2 + i % 2];
  halveSums<8>(sums, 16);
  halveSums<4>(sums, 8);
  halveSums<2>(sums, 4);
  // Bits 4, 3 and 2 of the lane chose the columns of 8.
  int j = lane / 4;
  *reinterpret_cast<float2 *>(&out[warp][accumulatorColumn(j)]) = {sums[0],
                                                                   sums[1]};
}

/// Row dots of `part` with a tile times the factors, and zeros where there is
/// no part: what its registers hold then is no number to multiply with 0.
QWEN_DEVICE void writeAlong(float *out, bool exists, const float (&part)[64],
                            const std::byte *tile, float first, float second) {
  float dots[2] = {};
  if (exists)
    rowDots(dots, part, tile);
  writeRowValues(out, first * dots[0], second * dots[1]);
}

/// d += row factor * part, two factors a thread.
QWEN_DEVICE void addScaledRows(float (&d)[64], const float (&part)[64],
                               float first, float second) {
#pragma unroll
  for (int i = 0; i < 64; ++i)
    d[i] += (i / 2 % 2 ? second : first) * part[i];
}

/// Products of keys are kept as f16 pairs through the value heads.
QWEN_DEVICE void packHalves(uint32_t (&packed)[16], const float (&d)[32]) {
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    __half2 pair = __floats2half2_rn(d[2 * i], d[2 * i + 1]);
    packed[i] = *reinterpret_cast<uint32_t *>(&pair);
  }
}
QWEN_DEVICE float unpackHalf(const uint32_t (&packed)[16], int i) {
  __half2 pair = *reinterpret_cast<const __half2 *>(&packed[i / 2]);
  return i % 2 ? __high2float(pair) : __low2float(pair);
}

/// Through the normalisation, dx = (dy - y (y.dy)) / norm, and out.
QWEN_DEVICE void writeNormalised(const float (&dy)[64], const std::byte *y,
                                 const float *scales, const HeadRows<Bf16> &out,
                                 const ChunkEntry &chunk, int keyHead) {
  float dots[2];
  rowDots(dots, dy, y);
  int row = accumulatorRow();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    int r = row + 8 * half;
    if (r >= chunk.rows)
      continue;
    float scale = scales[r];
    Bf16 *to = out.row(chunk.token + r, keyHead);
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      int column = accumulatorColumn(j);
      uint32_t pair = *reinterpret_cast<const uint32_t *>(
          y + tileOffset(r, column, panelBytes));
      *reinterpret_cast<uint32_t *>(to + column) = packBf16(
          scale * (dy[4 * j + 2 * half] - lowBf16(pair) * dots[half]),
          scale * (dy[4 * j + 2 * half + 1] - highBf16(pair) * dots[half]));
    }
  }
}

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_GATEDDELTAGRADTILES_CUH
