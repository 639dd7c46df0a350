//===- GatedDelta.cu - Chunked gated delta rule ----------------*- CUDA -*-===//
//
// kernel.gated_delta: schedule, preparation, and the scan that makes o. The
// same scan makes the states before the chunks and vd for the backward.
//
//===----------------------------------------------------------------------===//

#include "GatedDeltaScan.cuh"
#include "Kernels.h"

using namespace qwen;
using namespace qwen::cuda;

namespace {

/// Output: o. State: images of the states and of vd.
enum class Mode { Output, State };

template <Mode mode> struct ScanSmem;
template <> struct ScanSmem<Mode::Output> {
  Ring<StageTilesWithQ, 3> ring;
  static constexpr int stages = 3;
  alignas(1024) std::byte o[2][panelBytes];
};
template <> struct ScanSmem<Mode::State> {
  Ring<StageTiles, 3> ring;
  static constexpr int stages = 3;
  alignas(1024) std::byte vd[2][panelBytes];
  std::byte state[2][2 * panelBytes]; ///< [half][64 v, 128 k]
};

struct ScanOutputs {
  HeadRows<Bf16> o;
  std::byte *states, *vd;
  float scale;
  int valueHeads;
};

/// Registers of one warpgroup, all transposed: rows are v.
struct ScanState {
  float s[64];            ///< state [64 v, 128 k]
  uint32_t packed[8][4];  ///< state before the chunk
  float u[32], o[32];     ///< [64 v, 64 t]
  uint32_t results[4][4]; ///< o or vd of the chunk, to be written
};

/// w = beta (v - 2^G k S), packed; `u` holds k S.
QWEN_DEVICE void formTargets(uint32_t (&w)[4][4], const float (&u)[32],
                             const uint32_t (&v)[4][4],
                             const GateVectors &gates) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    float2 beta = columnPair(gates.beta, j);
    float2 start = columnPair(gates.fromStart, j);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t pair = v[j / 2][j % 2 * 2 + half];
      float low = lowBf16(pair) - start.x * u[4 * j + 2 * half];
      float high = highBf16(pair) - start.y * u[4 * j + 2 * half + 1];
      w[j / 2][j % 2 * 2 + half] = packBf16(beta.x * low, beta.y * high);
    }
  }
}

/// From the state before the chunk to vd and the state after it. No product
/// depends on a condition, or ptxas would wait for each: a document's first
/// chunk starts from zeros, its last one makes a state that nobody reads.
/// `writeEarlier` runs in the shadow of the first product.
template <Mode mode, typename Tiles, typename F>
QWEN_DEVICE void advance(ScanState &r, const Tiles &tiles, int half,
                         float scale, F &&writeEarlier) {
  Operand<Major::K> kRows(smemAddress(tiles.k), panelBytes);
  Operand<Major::MN> kColumns(smemAddress(tiles.k), panelBytes);
  Operand<Major::K> system(smemAddress(tiles.system), squareBytes);
  packAccumulator(r.packed, r.s);
  wgmmaFence();
  product<64, 8>(r.u, r.packed, kRows, false);
  wgmmaCommit();
  writeEarlier();
  uint32_t v[4][4], w[4][4];
  loadTransposed(v, smemAddress(tiles.rows) + half * panelBytes);
  wgmmaWait<0>();
  holdRegisters(r.u);
  formTargets(w, r.u, v, tiles.gates);
  wgmmaFence();
  product<64, 4>(r.u, w, system, false);
  wgmmaCommit();
  // What o alone needs comes behind what the state needs.
  if constexpr (mode == Mode::Output) {
    Operand<Major::K> qRows(smemAddress(tiles.q), panelBytes);
    product<64, 8>(r.o, r.packed, qRows, false);
    wgmmaCommit();
  }
  float total = tiles.gates.fromStart[chunkSize - 1];
#pragma unroll
  for (float &s : r.s)
    s *= total;
  wgmmaWait<mode == Mode::Output ? 1 : 0>();
  holdRegisters(r.u);
  uint32_t vd[4][4], vdToEnd[4][4];
  packAccumulator(vd, r.u);
  scaleColumns(r.u, tiles.gates.toEnd, 1);
  packAccumulator(vdToEnd, r.u);
  wgmmaFence();
  product<128, 4>(r.s, vdToEnd, kColumns, true);
  wgmmaCommit();
  if constexpr (mode == Mode::Output) {
    Operand<Major::K> attended(smemAddress(tiles.attended), squareBytes);
    wgmmaWait<1>();
    holdRegisters(r.o);
    scaleColumns(r.o, tiles.gates.fromStart, scale);
    wgmmaFence();
    product<64, 4>(r.o, vd, attended, true);
    wgmmaCommit();
  }
  wgmmaWait<0>();
  holdRegisters(r.s);
  if constexpr (mode == Mode::Output) {
    holdRegisters(r.o);
    packAccumulator(r.results, r.o);
  } else {
#pragma unroll
    for (int i = 0; i < 16; ++i)
      r.results[i / 4][i % 4] = vd[i / 4][i % 4];
  }
}

/// What is written late: results of the chunk before, and in Mode::State the
/// state before this one.
struct Written {
  StageInfo results, state;
  bool hasResults, hasState;
};

QWEN_DEVICE void writeResults(const ScanState &r, ScanSmem<Mode::Output> &smem,
                              const ScanOutputs &out, const Written &written,
                              int half) {
  if (!written.hasResults)
    return;
  namedSync(1 + half, 128);
  storeTransposed(r.results, smemAddress(smem.o[half]));
  namedSync(1 + half, 128);
  writeRows(smem.o[half], out.o, written.results, half);
}

QWEN_DEVICE void writeResults(const ScanState &r, ScanSmem<Mode::State> &smem,
                              const ScanOutputs &out, const Written &written,
                              int half) {
  bool isIssuer = threadIdx.x % 128 == 0;
  if (isIssuer)
    bulkStoreWaitRead();
  namedSync(1 + half, 128);
  storeTransposed(r.results, smemAddress(smem.vd[half]));
  storeFragments(r.packed, smemAddress(smem.state[half]), panelBytes);
  fenceProxyAsync();
  namedSync(1 + half, 128);
  if (!isIssuer)
    return;
  if (written.hasResults)
    bulkStore(out.vd + slotOf(written.results, out.valueHeads) * rowsBytes +
                  half * panelBytes,
              smemAddress(smem.vd[half]), panelBytes);
  if (written.hasState)
    sendState(smem.state[half],
              out.states + slotOf(written.state, out.valueHeads) * stateBytes,
              half);
  bulkStoreCommit();
}

template <Mode mode>
__global__ void __launch_bounds__(scanThreads, 1)
    scan(GatedDeltaSizes sizes, GatedDeltaBuffers buffers,
         HeadRows<const Bf16> v, ScanOutputs out) {
  extern __shared__ __align__(1024) std::byte raw[];
  using Smem = ScanSmem<mode>;
  Smem &smem = *reinterpret_cast<Smem *>(raw);
  if (threadIdx.x == 0)
    smem.ring.init();
  __syncthreads();
  int half = warpgroupIndex();
  if (half == 2) {
    lowerRegisters<loaderRegisters>();
    loadScan<false>(smem.ring, sizes, buffers, v, &buffers.header->nextScan);
    return;
  }
  raiseRegisters<scanRegisters>();
  RingPlace<Smem::stages> place;
  ScanState r = {};
  Written written = {};
  for (;;) {
    barrierWait(smemAddress(&smem.ring.full[place.stage]), place.phase);
    StageInfo info = smem.ring.info[place.stage];
    if (uniform(info.isEnd))
      break;
#pragma unroll
    for (float &s : r.s)
      s = info.chunk.isFirst ? 0 : s;
    written.state = info;
    written.hasState = !info.chunk.isFirst;
    advance<mode>(r, smem.ring.tiles[place.stage], half, out.scale,
                  [&] { writeResults(r, smem, out, written, half); });
    barrierArriveWarp(smemAddress(&smem.ring.empty[place.stage]));
    place.advance();
    written.results = info;
    written.hasResults = true;
  }
  written.hasState = false;
  writeResults(r, smem, out, written, half);
  if (threadIdx.x % 128 == 0)
    bulkStoreWait();
}

template <Mode mode>
cudaError_t enqueueScan(const GatedDeltaSizes &sizes,
                        const GatedDeltaBuffers &buffers,
                        HeadRows<const Bf16> v, const ScanOutputs &out,
                        cudaStream_t stream) {
  cudaError_t error = cudaFuncSetAttribute(
      scan<mode>, cudaFuncAttributeMaxDynamicSharedMemorySize,
      sizeof(ScanSmem<mode>));
  if (error != cudaSuccess)
    return error;
  scan<mode>
      <<<multiprocessors(), scanThreads, sizeof(ScanSmem<mode>), stream>>>(
          sizes, buffers, v, out);
  return cudaGetLastError();
}

} // namespace

cudaError_t qwen::cuda::enqueueOutputScan(const GatedDeltaSizes &sizes,
                                          const GatedDeltaBuffers &buffers,
                                          HeadRows<const Bf16> v,
                                          HeadRows<Bf16> o, float scale,
                                          cudaStream_t stream) {
  return enqueueScan<Mode::Output>(
      sizes, buffers, v, {o, nullptr, nullptr, scale, sizes.valueHeads},
      stream);
}

cudaError_t qwen::cuda::enqueueStateScan(const GatedDeltaSizes &sizes,
                                         const GatedDeltaBuffers &buffers,
                                         HeadRows<const Bf16> v,
                                         cudaStream_t stream) {
  return enqueueScan<Mode::State>(
      sizes, buffers, v, {{}, buffers.states, buffers.vd, 1, sizes.valueHeads},
      stream);
}

cudaError_t qwen::cuda::launch(const GatedDeltaArgs &args,
                               const LaunchContext &context) {
  GatedDeltaSizes sizes(args);
  Carver carver(context.workspace.data());
  GatedDeltaBuffers buffers(carver, sizes, false);
  float scale = static_cast<float>(args.scale);
  PrepareOperands operands = {headRows<Bf16>(args.q),
                              headRows<Bf16>(args.k),
                              headRows<Bf16>(args.beta),
                              headRows<float>(args.g),
                              scale,
                              static_cast<float>(args.l2normEps)};
  Tails tails = {{tailRows(args.o)}, 1};
  cudaError_t error = enqueueSchedule(sizes, buffers, args.cuSeqlens.as<int>(),
                                      tails, context.stream);
  if (error == cudaSuccess)
    error = enqueuePrepare(sizes, buffers, operands, false, context.stream);
  if (error == cudaSuccess)
    error = enqueueOutputScan(sizes, buffers, headRows<Bf16>(args.v),
                              headRows<Bf16>(args.o), scale, context.stream);
  return error;
}
