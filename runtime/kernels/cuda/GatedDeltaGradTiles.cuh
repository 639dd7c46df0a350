//===- GatedDeltaGradTiles.cuh - Roles of the gradient kernel --*- CUDA -*-===//
//
// What the three warpgroups of the kernel in GatedDeltaGrad.cu do, and the
// shared memory through which they meet. All walk the same pieces of work and
// value heads, counted by `step`; tiles of a value head alternate between two
// stages, states and sums have one.
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
  GateSums sums;
  float along[chunkSize];       ///< x.v
  float dots[4];                ///< <S, dS> by warp
  uint64_t rowsFull, rowsEmpty; ///< q and k
  uint64_t headFull[2], headEmpty[2];
  uint64_t stateFull, stateEmpty, dstateFull, dstateEmpty;
  uint64_t dpFull, dpEmpty;
  uint64_t sumsFull, sumsEmpty;

  /// By one thread. Arrivals are counted in warps, loads as one more.
  QWEN_DEVICE void init() {
    barrierInit(smemAddress(&rowsFull), 1);
    barrierInit(smemAddress(&rowsEmpty), 8);
    for (int i = 0; i < 2; ++i) {
      barrierInit(smemAddress(&headFull[i]), 1 + 4);
      barrierInit(smemAddress(&headEmpty[i]), 12);
    }
    barrierInit(smemAddress(&stateFull), 1);
    barrierInit(smemAddress(&stateEmpty), 12);
    barrierInit(smemAddress(&dstateFull), 1);
    barrierInit(smemAddress(&dstateEmpty), 8);
    barrierInit(smemAddress(&dpFull), 4);
    barrierInit(smemAddress(&dpEmpty), 4);
    barrierInit(smemAddress(&sumsFull), 8);
    barrierInit(smemAddress(&sumsEmpty), 4);
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

/// Sums of the columns over the 16 rows of each warp. In each step a lane sends
/// half of its sums to its partner and keeps the other half.
QWEN_DEVICE void writeColumnSums(float (&out)[4][chunkSize],
                                 const float (&d)[32]) {
  int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
  float sums[16];
#pragma unroll
  for (int i = 0; i < 16; ++i)
    sums[i] = d[i / 2 * 4 + i % 2] + d[i / 2 * 4 + 2 + i % 2];
#pragma unroll
  for (int kept = 8, bit = 16; kept >= 2; kept /= 2, bit /= 2) {
    bool upper = lane & bit;
#pragma unroll
    for (int i = 0; i < kept; ++i) {
      float sent = upper ? sums[i] : sums[i + kept];
      float mine = upper ? sums[i + kept] : sums[i];
      sums[i] = mine + __shfl_xor_sync(~0u, sent, bit);
    }
  }
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

//===----------------------------------------------------------------------===//
// First warpgroup: dq
//===----------------------------------------------------------------------===//

/// Z and its sums, dP as fragments; `d` holds do vd^T.
QWEN_DEVICE void formOutputPairs(uint32_t (&dp)[4][4], float (&d)[32],
                                 const uint32_t (&qk)[16],
                                 const GateVectors &gates, float scale,
                                 GateSums &sums) {
  int row = accumulatorRow();
  float g[2] = {gates.g[row], gates.g[row + 8]}, rows[2] = {};
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    int column = accumulatorColumn(j);
    float2 gColumn = *reinterpret_cast<const float2 *>(gates.g + column);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int i = 4 * j + 2 * half, r = row + 8 * half;
      float low = column <= r ? exp2Fast(fminf(g[half] - gColumn.x, 0)) : 0.f;
      float high =
          column + 1 <= r ? exp2Fast(fminf(g[half] - gColumn.y, 0)) : 0.f;
      low *= scale * d[i];
      high *= scale * d[i + 1];
      dp[j / 2][j % 2 * 2 + half] = packBf16(low, high);
      d[i] = low * unpackHalf(qk, i);
      d[i + 1] = high * unpackHalf(qk, i + 1);
      rows[half] += d[i] + d[i + 1];
    }
  }
  writeRowValues(sums.rowsZ, sumQuad(rows[0]), sumQuad(rows[1]));
  writeColumnSums(sums.columnsZ, d);
}

/// One value head.
QWEN_DEVICE void queryHead(GradSmem &smem, int step, bool hasState,
                           float (&dq)[64], const uint32_t (&qk)[16],
                           float scale) {
  HeadTiles &tiles = smem.heads[step % 2];
  Operand<Major::K> dout(smemAddress(tiles.dout), panelBytes);
  Operand<Major::K> vd(smemAddress(tiles.vd), panelBytes);
  Operand<Major::MN> state(smemAddress(smem.state), statePanelBytes);
  Operand<Major::MN> kColumns(smemAddress(smem.k), panelBytes);
  waitFor(smem.headFull[step % 2], step / 2);
  float pairs[32], part[64];
  wgmmaFence();
  product<64, 8>(pairs, dout, vd, false);
  wgmmaCommit();
  wgmmaWait<0>();
  holdRegisters(pairs);
  waitEmpty(smem.sumsEmpty, step);
  uint32_t dp[4][4];
  formOutputPairs(dp, pairs, qk, tiles.gates, scale, smem.sums);
  waitEmpty(smem.dpEmpty, step);
  storeFragments(dp, smemAddress(smem.dp), squareBytes);
  fenceProxyAsync();
  release(smem.dpFull);
  // Without a state the product is made all the same, of anything, and not
  // used: a condition would make ptxas wait for each product.
  waitFor(smem.stateFull, step);
  wgmmaFence();
  product<128, 8>(part, dout, state, false);
  wgmmaCommit();
  product<128, 4>(dq, dp, kColumns, true);
  wgmmaCommit();
  wgmmaWait<1>();
  holdRegisters(part);
  release(smem.stateEmpty);
  int row = accumulatorRow();
  float first = scale * tiles.gates.fromStart[row];
  float second = scale * tiles.gates.fromStart[row + 8];
  writeAlong(smem.sums.alongQ, hasState, part, smem.q, first, second);
  release(smem.sumsFull);
  release(smem.headEmpty[step % 2]);
  wgmmaWait<0>();
  holdRegisters(dq);
  if (hasState)
    addScaledRows(dq, part, first, second);
}

QWEN_DEVICE void queryGradients(const GradContext &c) {
  GradSmem &smem = c.smem;
  int step = 0, use = 0;
  for (int item = blockIdx.x; item < c.items; item += gridDim.x, ++use) {
    ChunkEntry chunk = c.buffers.chunks[item / c.sizes.keyHeads];
    waitFor(smem.rowsFull, use);
    float dq[64], products[32];
    uint32_t qk[16];
    wgmmaFence();
    product<64, 8>(products, Operand<Major::K>(smemAddress(smem.q), panelBytes),
                   Operand<Major::K>(smemAddress(smem.k), panelBytes), false);
    wgmmaCommit();
    wgmmaWait<0>();
    holdRegisters(products);
    packHalves(qk, products);
#pragma unroll
    for (float &d : dq)
      d = 0;
    for (int group = 0; group < c.sizes.groups; ++group, ++step)
      queryHead(smem, step, uniform(!chunk.isFirst), dq, qk, c.operands.scale);
    writeNormalised(dq, smem.q, c.buffers.qScale + int64_t(item) * chunkSize,
                    c.operands.dq, chunk, item % c.sizes.keyHeads);
    release(smem.rowsEmpty);
  }
}

//===----------------------------------------------------------------------===//
// Second warpgroup: dk
//===----------------------------------------------------------------------===//

/// N as fragments and the sums of N * (k k^T); `d` holds x vd^T.
QWEN_DEVICE void formSystemPairs(uint32_t (&n)[4][4], float (&d)[32],
                                 const uint32_t (&kk)[16],
                                 const GateVectors &gates, GateSums &sums) {
  int row = accumulatorRow();
  float g[2] = {gates.g[row], gates.g[row + 8]}, rows[2] = {};
  float beta[2] = {gates.beta[row], gates.beta[row + 8]};
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    int column = accumulatorColumn(j);
    float2 gColumn = *reinterpret_cast<const float2 *>(gates.g + column);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int i = 4 * j + 2 * half, r = row + 8 * half;
      float low = column < r ? exp2Fast(fminf(g[half] - gColumn.x, 0)) : 0.f;
      float high =
          column + 1 < r ? exp2Fast(fminf(g[half] - gColumn.y, 0)) : 0.f;
      low *= -d[i];
      high *= -d[i + 1];
      n[j / 2][j % 2 * 2 + half] =
          packBf16(beta[half] * low, beta[half] * high);
      low *= unpackHalf(kk, i);
      high *= unpackHalf(kk, i + 1);
      rows[half] += low + high;
      d[i] = beta[half] * low;
      d[i + 1] = beta[half] * high;
    }
  }
  writeRowValues(sums.rowsN, sumQuad(rows[0]), sumQuad(rows[1]));
  writeColumnSums(sums.columnsN, d);
}

/// One value head.
QWEN_DEVICE void keyHead(GradSmem &smem, int step, bool hasState,
                         bool hasGradient, float (&dk)[64],
                         const uint32_t (&kk)[16]) {
  HeadTiles &tiles = smem.heads[step % 2];
  Operand<Major::K> vd(smemAddress(tiles.vd), panelBytes);
  Operand<Major::K> x(smemAddress(tiles.x), panelBytes);
  Operand<Major::MN> state(smemAddress(smem.state), statePanelBytes);
  Operand<Major::MN> dstate(smemAddress(smem.dstate), statePanelBytes);
  Operand<Major::MN> kColumns(smemAddress(smem.k), panelBytes);
  Operand<Major::MN> qColumns(smemAddress(smem.q), panelBytes);
  Operand<Major::MN> dpRows(smemAddress(smem.dp), squareBytes);
  Operand<Major::MN> nRows(smemAddress(smem.n), squareBytes);
  waitFor(smem.headFull[step % 2], step / 2);
  float pairs[32], part[64];
  wgmmaFence();
  product<64, 8>(pairs, x, vd, false);
  wgmmaCommit();
  waitFor(smem.dstateFull, step);
  product<128, 8>(part, vd, dstate, false);
  wgmmaCommit();
  wgmmaWait<1>();
  holdRegisters(pairs);
  waitEmpty(smem.sumsEmpty, step);
  uint32_t n[4][4];
  formSystemPairs(n, pairs, kk, tiles.gates, smem.sums);
  namedSync(2, 128); // the products of the step before have read n
  storeFragments(n, smemAddress(smem.n), squareBytes);
  fenceProxyAsync();
  wgmmaWait<0>();
  holdRegisters(part);
  release(smem.dstateEmpty);
  int row = accumulatorRow();
  float first = tiles.gates.toEnd[row], second = tiles.gates.toEnd[row + 8];
  writeAlong(smem.sums.alongK, hasGradient, part, smem.k, first, second);
  if (hasGradient)
    addScaledRows(dk, part, first, second);
  namedSync(2, 128); // n is whole
  waitFor(smem.stateFull, step);
  wgmmaFence();
  product<128, 8>(part, x, state, false);
  wgmmaCommit();
  product<128, 4>(dk, n, kColumns, true);
  product<128, 4>(dk, nRows, kColumns, true);
  wgmmaCommit();
  wgmmaWait<1>();
  holdRegisters(part);
  release(smem.stateEmpty);
  first = -tiles.gates.fromStart[row];
  second = -tiles.gates.fromStart[row + 8];
  writeAlong(smem.sums.alongState, hasState, part, smem.k, first, second);
  release(smem.sumsFull);
  first *= tiles.gates.beta[row];
  second *= tiles.gates.beta[row + 8];
  waitFor(smem.dpFull, step);
  product<128, 4>(dk, dpRows, qColumns, true);
  wgmmaCommit();
  wgmmaWait<0>();
  holdRegisters(dk);
  release(smem.dpEmpty);
  release(smem.headEmpty[step % 2]);
  if (hasState)
    addScaledRows(dk, part, first, second);
}

QWEN_DEVICE void keyGradients(const GradContext &c) {
  GradSmem &smem = c.smem;
  int step = 0, use = 0;
  for (int item = blockIdx.x; item < c.items; item += gridDim.x, ++use) {
    ChunkEntry chunk = c.buffers.chunks[item / c.sizes.keyHeads];
    waitFor(smem.rowsFull, use);
    float dk[64], products[32];
    uint32_t kk[16];
    Operand<Major::K> k(smemAddress(smem.k), panelBytes);
    wgmmaFence();
    product<64, 8>(products, k, k, false);
    wgmmaCommit();
    wgmmaWait<0>();
    holdRegisters(products);
    packHalves(kk, products);
#pragma unroll
    for (float &d : dk)
      d = 0;
    for (int group = 0; group < c.sizes.groups; ++group, ++step)
      keyHead(smem, step, uniform(!chunk.isFirst), uniform(!chunk.isLast), dk,
              kk);
    writeNormalised(dk, smem.k, c.buffers.kScale + int64_t(item) * chunkSize,
                    c.operands.dk, chunk, item % c.sizes.keyHeads);
    release(smem.rowsEmpty);
  }
}

//===----------------------------------------------------------------------===//
// Third warpgroup: dout, and the gates
//===----------------------------------------------------------------------===//

/// A piece of work and a value head of it, in the order of all roles.
struct GradStep {
  int item, group;
  QWEN_DEVICE void advance(const GradContext &c) {
    if (++group == c.sizes.groups) {
      group = 0;
      item += gridDim.x;
    }
  }
};

struct StepPlace {
  ChunkEntry chunk;
  int valueHead;
  int64_t slot; ///< of the chunk and value head
  QWEN_DEVICE StepPlace(const GradContext &c, const GradStep &at)
      : chunk(c.buffers.chunks[at.item / c.sizes.keyHeads]),
        valueHead(at.item % c.sizes.keyHeads * c.sizes.groups + at.group),
        slot(int64_t(at.item / c.sizes.keyHeads) * c.sizes.valueHeads +
             valueHead) {}
};

/// Begins loading vd, x and gates of step `step`; by one thread.
QWEN_DEVICE void loadHead(const GradContext &c, const StepPlace &place,
                          int step) {
  HeadTiles &tiles = c.smem.heads[step % 2];
  waitEmpty(c.smem.headEmpty[step % 2], step / 2);
  SmemAddr full = smemAddress(&c.smem.headFull[step % 2]);
  barrierArriveExpect(full, 2 * rowsBytes + vectorBytes);
  bulkLoad(smemAddress(tiles.vd), c.buffers.vd + place.slot * rowsBytes,
           rowsBytes, full);
  bulkLoad(smemAddress(tiles.x), c.buffers.x + place.slot * rowsBytes,
           rowsBytes, full);
  bulkLoad(smemAddress(&tiles.gates), c.buffers.gates + place.slot, vectorBytes,
           full);
}

/// Begins loading dout of step `step`.
QWEN_DEVICE void loadOutputs(const GradContext &c, const StepPlace &place,
                             int step) {
  int thread = threadIdx.x % 128;
  SmemAddr tile = smemAddress(c.smem.heads[step % 2].dout);
  waitEmpty(c.smem.headEmpty[step % 2], step / 2);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    int row = thread / 16 + 8 * i, column = thread % 16 * 8;
    bool valid = row < place.chunk.rows;
    copyOrZero(tile + tileOffset(row, column, panelBytes),
               c.operands.dout.row(place.chunk.token + (valid ? row : 0),
                                   place.valueHead) +
                   column,
               valid);
  }
}

/// Begins loading q and k of a piece of work, by one thread.
QWEN_DEVICE void loadRows(const GradContext &c, int item, int use) {
  waitEmpty(c.smem.rowsEmpty, use);
  SmemAddr full = smemAddress(&c.smem.rowsFull);
  barrierArriveExpect(full, 2 * rowsBytes);
  bulkLoad(smemAddress(c.smem.q), c.buffers.q + int64_t(item) * rowsBytes,
           rowsBytes, full);
  bulkLoad(smemAddress(c.smem.k), c.buffers.k + int64_t(item) * rowsBytes,
           rowsBytes, full);
}

/// Begins loading one state, or says that there is none; by one thread.
QWEN_DEVICE void loadState(std::byte *to, const std::byte *from, bool exists,
                           uint64_t &full, const uint64_t &empty, int step) {
  waitEmpty(empty, step);
  if (!exists) {
    barrierArrive(smemAddress(&full));
    return;
  }
  barrierArriveExpect(smemAddress(&full), stateBytes);
  bulkLoad(smemAddress(to), from, stateBytes, smemAddress(&full));
}
QWEN_DEVICE void loadStates(const GradContext &c, const StepPlace &place,
                            int step) {
  loadState(c.smem.dstate, c.buffers.dstates + place.slot * stateBytes,
            !place.chunk.isLast, c.smem.dstateFull, c.smem.dstateEmpty, step);
  loadState(c.smem.state, c.buffers.states + place.slot * stateBytes,
            !place.chunk.isFirst, c.smem.stateFull, c.smem.stateEmpty, step);
}

QWEN_DEVICE float dotPieces(const uint4 &a, const uint4 &b) {
  const uint32_t x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    sum += lowBf16(x[i]) * lowBf16(y[i]) + highBf16(x[i]) * highBf16(y[i]);
  return sum;
}
QWEN_DEVICE float sumLanes(float x, int lanes) {
  for (int step = lanes / 2; step > 0; step /= 2)
    x += __shfl_xor_sync(~0u, x, step);
  return x;
}

/// <S, dS>, each warp a part.
QWEN_DEVICE void dotStates(GradSmem &smem, bool exists) {
  int thread = threadIdx.x % 128;
  float sum = 0;
  if (exists)
#pragma unroll 4
    for (uint32_t i = 0; i < stateBytes / 16 / 128; ++i) {
      uint32_t offset = 16 * (thread + 128 * i);
      sum += dotPieces(*reinterpret_cast<uint4 *>(smem.state + offset),
                       *reinterpret_cast<uint4 *>(smem.dstate + offset));
    }
  sum = sumLanes(sum, 32);
  if (thread % 32 == 0)
    smem.dots[thread / 32] = sum;
}

/// Rows of v in registers, 16 lanes a row.
struct ValueRows {
  uint4 pieces[8];
  QWEN_DEVICE void load(const GradContext &c, const StepPlace &place) {
    int thread = threadIdx.x % 128;
    const Bf16 *first =
        c.operands.v.row(place.chunk.token, place.valueHead) + thread % 16 * 8;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      int row = thread / 16 + 8 * i;
      pieces[i] = row < place.chunk.rows
                      ? *reinterpret_cast<const uint4 *>(
                            first + row * c.operands.v.tokenStride)
                      : uint4{};
    }
  }
};

/// x.v of each row.
QWEN_DEVICE void dotValues(GradSmem &smem, const ValueRows &v, int step) {
  int thread = threadIdx.x % 128, column = thread % 16 * 8;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    int row = thread / 16 + 8 * i;
    uint4 x = *reinterpret_cast<const uint4 *>(
        smem.heads[step % 2].x + tileOffset(row, column, panelBytes));
    float sum = sumLanes(dotPieces(v.pieces[i], x), 16);
    if (thread % 16 == 0)
      smem.along[row] = sum;
  }
}

/// Gradient of one running sum G, and dbeta of its row.
QWEN_DEVICE float2 rowGradients(const GradSmem &smem, const GateVectors &gates,
                                int row) {
  const GateSums &sums = smem.sums;
  float columns = 0;
  for (int warp = 0; warp < 4; ++warp)
    columns += sums.columnsZ[warp][row] + sums.columnsN[warp][row];
  float perBeta = sums.alongState[row] + sums.rowsN[row];
  return {sums.alongQ[row] - sums.alongK[row] + sums.rowsZ[row] +
              gates.beta[row] * perBeta - columns,
          smem.along[row] + perBeta};
}

/// dg and dbeta of one value head, by one warp; a lane has two rows.
QWEN_DEVICE void finishGates(const GradContext &c, const StepPlace &place,
                             const GateVectors &gates) {
  const GradSmem &smem = c.smem;
  int lane = threadIdx.x % 32;
  float2 first = rowGradients(smem, gates, 2 * lane);
  float2 second = rowGradients(smem, gates, 2 * lane + 1);
  float atEnd =
      sumLanes(smem.sums.alongK[2 * lane] + smem.sums.alongK[2 * lane + 1],
               32) +
      gates.fromStart[chunkSize - 1] *
          (smem.dots[0] + smem.dots[1] + smem.dots[2] + smem.dots[3]);
  // Sum over the rows from this lane's first one to the end.
  float sum = first.x + second.x;
  for (int step = 1; step < 32; step *= 2) {
    float other = __shfl_down_sync(~0u, sum, step);
    sum += lane + step < 32 ? other : 0;
  }
  float after = __shfl_down_sync(~0u, sum, 1);
  after = lane < 31 ? after : 0;
  float dg[2] = {sum + atEnd, second.x + after + atEnd};
  float dbeta[2] = {first.y, second.y};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    int row = 2 * lane + i;
    if (row >= place.chunk.rows)
      continue;
    *c.operands.dg.row(place.chunk.token + row, place.valueHead) = dg[i];
    *c.operands.dbeta.row(place.chunk.token + row, place.valueHead) =
        __float2bfloat16_rn(dbeta[i]);
  }
}

QWEN_DEVICE void signalOutputs(const GradContext &c, int step) {
  copyWaitAll();
  fenceProxyAsync();
  release(c.smem.headFull[step % 2]);
}

QWEN_DEVICE void finishHeads(const GradContext &c) {
  GradSmem &smem = c.smem;
  GradStep at = {int(blockIdx.x), 0};
  if (at.item >= c.items)
    return;
  StepPlace place(c, at);
  loadOutputs(c, place, 0);
  signalOutputs(c, 0);
  for (int step = 0; at.item < c.items; ++step) {
    ValueRows v;
    v.load(c, place);
    GradStep next = at;
    next.advance(c);
    bool hasNext = next.item < c.items;
    StepPlace nextPlace(c, hasNext ? next : at);
    if (hasNext)
      loadOutputs(c, nextPlace, step + 1);
    waitFor(smem.stateFull, step);
    waitFor(smem.dstateFull, step);
    dotStates(smem, !place.chunk.isFirst && !place.chunk.isLast);
    release(smem.stateEmpty);
    release(smem.dstateEmpty);
    waitFor(smem.headFull[step % 2], step / 2);
    dotValues(smem, v, step);
    if (hasNext)
      signalOutputs(c, step + 1);
    waitFor(smem.sumsFull, step);
    namedSync(3, 128); // along and dots are whole
    if (threadIdx.x % 128 < 32)
      finishGates(c, place, smem.heads[step % 2].gates);
    namedSync(3, 128);
    release(smem.sumsEmpty);
    release(smem.headEmpty[step % 2]);
    at = next;
    place = nextPlace;
  }
}

//===----------------------------------------------------------------------===//
// One thread: bulk loads, in the order in which their buffers become free
//===----------------------------------------------------------------------===//

QWEN_DEVICE void loadTiles(const GradContext &c) {
  GradStep at = {int(blockIdx.x), 0};
  if (at.item >= c.items)
    return;
  StepPlace place(c, at);
  loadHead(c, place, 0);
  int use = 0;
  for (int step = 0; at.item < c.items; ++step) {
    GradStep next = at;
    next.advance(c);
    bool hasNext = next.item < c.items;
    StepPlace nextPlace(c, hasNext ? next : at);
    loadStates(c, place, step);
    if (at.group == 0)
      loadRows(c, at.item, use++);
    if (hasNext)
      loadHead(c, nextPlace, step + 1);
    at = next;
    place = nextPlace;
  }
}

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_GATEDDELTAGRADTILES_CUH
