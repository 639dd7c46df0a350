//===- GatedDeltaGradProducts.cuh - dq and dk of the rule --- -*- CUDA -*-===//
//
// What the first two warpgroups of the gradient kernel do. No product depends
// on a condition, or ptxas would wait for each: where there is no state the
// product is made of anything and its result not used.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_GATEDDELTAGRADPRODUCTS_CUH
#define QWEN_RUNTIME_KERNELS_CUDA_GATEDDELTAGRADPRODUCTS_CUH

#include "GatedDeltaGradTiles.cuh"

namespace qwen::cuda {

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
  waitEmpty(smem.sumsEmpty[step % 2], step / 2);
  uint32_t dp[4][4];
  formOutputPairs(dp, pairs, qk, tiles.gates, scale, smem.sums[step % 2]);
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
  writeAlong(smem.sums[step % 2].alongQ, hasState, part, smem.q, first, second);
  release(smem.sumsFull[step % 2]);
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
  waitEmpty(smem.sumsEmpty[step % 2], step / 2);
  uint32_t n[4][4];
  formSystemPairs(n, pairs, kk, tiles.gates, smem.sums[step % 2]);
  namedSync(2, 128); // the products of the step before have read n
  storeFragments(n, smemAddress(smem.n), squareBytes);
  fenceProxyAsync();
  wgmmaWait<0>();
  holdRegisters(part);
  release(smem.dstateEmpty);
  int row = accumulatorRow();
  float first = tiles.gates.toEnd[row], second = tiles.gates.toEnd[row + 8];
  writeAlong(smem.sums[step % 2].alongK, hasGradient, part, smem.k, first,
             second);
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
  writeAlong(smem.sums[step % 2].alongState, hasState, part, smem.k, first,
             second);
  release(smem.sumsFull[step % 2]);
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

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_GATEDDELTAGRADPRODUCTS_CUH
