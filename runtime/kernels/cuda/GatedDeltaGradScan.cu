//===- GatedDeltaGradScan.cu - Gradient of the state -----------*- CUDA -*-===//
//
// The backward scan of the gated delta rule: walks the chunks of a document and
// value head from the last to the first with the transposed gradient of the
// state in registers; writes it after each chunk, and x and dv of each.
//
//===----------------------------------------------------------------------===//

#include "GatedDeltaScan.cuh"

using namespace qwen;
using namespace qwen::cuda;

namespace {

struct GradScanSmem {
  static constexpr int stages = 2;
  Ring<StageTilesWithQ, stages> ring;
  alignas(1024) std::byte x[2][panelBytes];
  std::byte dv[2][panelBytes];
  std::byte dstate[2][2 * panelBytes]; ///< [half][64 v, 128 k]
};

struct GradScanOutputs {
  HeadRows<Bf16> dv;
  std::byte *dstates, *x;
  float scale;
  int valueHeads;
};

/// Registers of one warpgroup, all transposed: rows are v.
struct GradScanState {
  float ds[64];               ///< gradient of the state [64 v, 128 k]
  uint32_t packed[8][4];      ///< the same after the chunk
  uint32_t x[4][4], dv[4][4]; ///< [64 v, 64 t]
};

/// x dv and the gradient of k S, from x.
QWEN_DEVICE void formValueGradients(GradScanState &r, uint32_t (&dks)[4][4],
                                    const float (&x)[32],
                                    const GateVectors &gates) {
  packAccumulator(r.x, x);
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    float2 beta = columnPair(gates.beta, j);
    float2 start = columnPair(gates.fromStart, j);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float low = beta.x * x[4 * j + 2 * half];
      float high = beta.y * x[4 * j + 2 * half + 1];
      r.dv[j / 2][j % 2 * 2 + half] = packBf16(low, high);
      dks[j / 2][j % 2 * 2 + half] = packBf16(-start.x * low, -start.y * high);
    }
  }
}

/// dout scaled by scale 2^G.
QWEN_DEVICE void scaleOutputs(uint32_t (&dout)[4][4], const GateVectors &gates,
                              float scale) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    float2 start = columnPair(gates.fromStart, j);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t &pair = dout[j / 2][j % 2 * 2 + half];
      pair = packBf16(scale * start.x * lowBf16(pair),
                      scale * start.y * highBf16(pair));
    }
  }
}

/// From the gradient after the chunk to x, dv and the gradient before it.
/// `writeEarlier` runs in the shadow of the first product.
template <typename F>
QWEN_DEVICE void retreat(GradScanState &r, const StageTilesWithQ &tiles,
                         int half, float scale, F &&writeEarlier) {
  Operand<Major::K> kRows(smemAddress(tiles.k), panelBytes);
  Operand<Major::MN> kColumns(smemAddress(tiles.k), panelBytes);
  Operand<Major::MN> qColumns(smemAddress(tiles.q), panelBytes);
  Operand<Major::MN> system(smemAddress(tiles.system), squareBytes);
  Operand<Major::MN> attended(smemAddress(tiles.attended), squareBytes);
  float x[32];
  uint32_t dout[4][4], packed[4][4];
  loadTransposed(dout, smemAddress(tiles.rows) + half * panelBytes);
  packAccumulator(r.packed, r.ds);
  float total = tiles.gates.fromStart[chunkSize - 1];
#pragma unroll
  for (float &ds : r.ds)
    ds *= total;
  wgmmaFence();
  product<64, 8>(x, r.packed, kRows, false);
  wgmmaCommit();
  writeEarlier();
  wgmmaWait<0>();
  holdRegisters(x);
  scaleColumns(x, tiles.gates.toEnd, 1);
  wgmmaFence();
  product<64, 4>(x, dout, attended, true);
  wgmmaCommit();
  wgmmaWait<0>();
  holdRegisters(x);
  packAccumulator(packed, x);
  scaleOutputs(dout, tiles.gates, scale);
  wgmmaFence();
  product<64, 4>(x, packed, system, false);
  wgmmaCommit();
  product<128, 4>(r.ds, dout, qColumns, true);
  wgmmaCommit();
  wgmmaWait<1>();
  holdRegisters(x);
  uint32_t dks[4][4];
  formValueGradients(r, dks, x, tiles.gates);
  wgmmaFence();
  product<128, 4>(r.ds, dks, kColumns, true);
  wgmmaCommit();
  wgmmaWait<0>();
  holdRegisters(r.ds);
}

/// What is written late: results of the chunk before, and the gradient after
/// this one.
struct Written {
  StageInfo results, dstate;
  bool hasResults, hasDstate;
};

QWEN_DEVICE void writeResults(const GradScanState &r, GradScanSmem &smem,
                              const GradScanOutputs &out,
                              const Written &written, int half) {
  bool isIssuer = threadIdx.x % 128 == 0;
  if (isIssuer)
    bulkStoreWaitRead();
  namedSync(1 + half, 128);
  storeTransposed(r.x, smemAddress(smem.x[half]));
  storeTransposed(r.dv, smemAddress(smem.dv[half]));
  storeFragments(r.packed, smemAddress(smem.dstate[half]), panelBytes);
  fenceProxyAsync();
  namedSync(1 + half, 128);
  if (isIssuer) {
    if (written.hasResults)
      bulkStore(out.x + slotOf(written.results, out.valueHeads) * rowsBytes +
                    half * panelBytes,
                smemAddress(smem.x[half]), panelBytes);
    if (written.hasDstate)
      sendState(smem.dstate[half],
                out.dstates +
                    slotOf(written.dstate, out.valueHeads) * stateBytes,
                half);
    bulkStoreCommit();
  }
  if (written.hasResults)
    writeRows(smem.dv[half], out.dv, written.results, half);
}

__global__ void __launch_bounds__(scanThreads, 1)
    gradScan(GatedDeltaSizes sizes, GatedDeltaBuffers buffers,
             HeadRows<const Bf16> dout, GradScanOutputs out) {
  extern __shared__ __align__(1024) std::byte raw[];
  GradScanSmem &smem = *reinterpret_cast<GradScanSmem *>(raw);
  if (threadIdx.x == 0)
    smem.ring.init();
  __syncthreads();
  int half = warpgroupIndex();
  if (half == 2) {
    lowerRegisters<loaderRegisters>();
    loadScan<true>(smem.ring, sizes, buffers, dout,
                   &buffers.header->nextGradScan);
    return;
  }
  raiseRegisters<scanRegisters>();
  RingPlace<GradScanSmem::stages> place;
  GradScanState r = {};
  Written written = {};
  for (;;) {
    barrierWait(smemAddress(&smem.ring.full[place.stage]), place.phase);
    StageInfo info = smem.ring.info[place.stage];
    if (uniform(info.isEnd))
      break;
#pragma unroll
    for (float &ds : r.ds)
      ds = info.chunk.isLast ? 0 : ds;
    written.dstate = info;
    written.hasDstate = !info.chunk.isLast;
    retreat(r, smem.ring.tiles[place.stage], half, out.scale,
            [&] { writeResults(r, smem, out, written, half); });
    barrierArriveWarp(smemAddress(&smem.ring.empty[place.stage]));
    place.advance();
    written.results = info;
    written.hasResults = true;
  }
  written.hasDstate = false;
  writeResults(r, smem, out, written, half);
  if (threadIdx.x % 128 == 0)
    bulkStoreWait();
}

} // namespace

cudaError_t qwen::cuda::enqueueGradScan(const GatedDeltaSizes &sizes,
                                        const GatedDeltaBuffers &buffers,
                                        HeadRows<const Bf16> dout,
                                        HeadRows<Bf16> dv, float scale,
                                        cudaStream_t stream) {
  cudaError_t error = cudaFuncSetAttribute(
      gradScan, cudaFuncAttributeMaxDynamicSharedMemorySize,
      sizeof(GradScanSmem));
  if (error != cudaSuccess)
    return error;
  gradScan<<<multiprocessors(), scanThreads, sizeof(GradScanSmem), stream>>>(
      sizes, buffers, dout,
      {dv, buffers.dstates, buffers.x, scale, sizes.valueHeads});
  return cudaGetLastError();
}
