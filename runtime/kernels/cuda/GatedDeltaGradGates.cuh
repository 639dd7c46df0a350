//===- GatedDeltaGradGates.cuh - dg and dbeta, and loads ---- -*- CUDA -*-===//
//
// What the third warpgroup of the gradient kernel does, dout and the gates, and
// the thread that loads tiles.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_GATEDDELTAGRADGATES_CUH
#define QWEN_RUNTIME_KERNELS_CUDA_GATEDDELTAGRADGATES_CUH

#include "GatedDeltaGradTiles.cuh"

namespace qwen::cuda {

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
      : chunk(c.buffers.chunks[at.item / c.sizes.keyHeads]) {
    moveTo(c, at);
  }
  /// The place of the step behind `at`, which is `next`.
  QWEN_DEVICE StepPlace behind(const GradContext &c,
                               const GradStep &next) const {
    if (next.group == 0)
      return StepPlace(c, next);
    StepPlace place = *this;
    place.moveTo(c, next);
    return place;
  }

private:
  QWEN_DEVICE void moveTo(const GradContext &c, const GradStep &at) {
    valueHead = at.item % c.sizes.keyHeads * c.sizes.groups + at.group;
    slot = int64_t(at.item / c.sizes.keyHeads) * c.sizes.valueHeads + valueHead;
  }
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

/// Fetches what the next step reads into the L2 cache: its buffers here have no
/// second stage to be loaded into ahead.
QWEN_DEVICE void prefetchStates(const GradContext &c, const StepPlace &place) {
  if (!place.chunk.isLast)
    bulkPrefetch(c.buffers.dstates + place.slot * stateBytes, stateBytes);
  if (!place.chunk.isFirst)
    bulkPrefetch(c.buffers.states + place.slot * stateBytes, stateBytes);
}
QWEN_DEVICE void prefetchRows(const GradContext &c, int item) {
  if (item >= c.items)
    return;
  bulkPrefetch(c.buffers.q + int64_t(item) * rowsBytes, rowsBytes);
  bulkPrefetch(c.buffers.k + int64_t(item) * rowsBytes, rowsBytes);
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

/// Half the rows of v in registers, 16 lanes a row.
struct ValueRows {
  int first; ///< 0 or 32
  uint4 pieces[4];

  QWEN_DEVICE void load(const GradContext &c, const StepPlace &place,
                        int from) {
    int thread = threadIdx.x % 128;
    const Bf16 *rows =
        c.operands.v.row(place.chunk.token, place.valueHead) + thread % 16 * 8;
    first = from + thread / 16;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      pieces[i] = first + 8 * i < place.chunk.rows
                      ? *reinterpret_cast<const uint4 *>(
                            rows + (first + 8 * i) * c.operands.v.tokenStride)
                      : uint4{};
  }

  /// x.v of each row.
  QWEN_DEVICE void dot(GradSmem &smem, int step) const {
    int column = threadIdx.x % 16 * 8;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int row = first + 8 * i;
      uint4 x = *reinterpret_cast<const uint4 *>(
          smem.heads[step % 2].x + tileOffset(row, column, panelBytes));
      float sum = sumLanes(dotPieces(pieces[i], x), 16);
      if (threadIdx.x % 16 == 0)
        smem.along[row] = sum;
    }
  }
};

/// Gradient of one running sum G, and dbeta of its row.
QWEN_DEVICE float2 rowGradients(const GradSmem &smem, const GateSums &sums,
                                const GateVectors &gates, int row) {
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
                             int step) {
  const GradSmem &smem = c.smem;
  const GateVectors &gates = smem.heads[step % 2].gates;
  const GateSums &sums = smem.sums[step % 2];
  int lane = threadIdx.x % 32;
  float2 first = rowGradients(smem, sums, gates, 2 * lane);
  float2 second = rowGradients(smem, sums, gates, 2 * lane + 1);
  float atEnd =
      sumLanes(sums.alongK[2 * lane] + sums.alongK[2 * lane + 1], 32) +
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
    v.load(c, place, 0);
    GradStep next = at;
    next.advance(c);
    bool hasNext = next.item < c.items;
    StepPlace nextPlace = hasNext ? place.behind(c, next) : place;
    if (hasNext)
      loadOutputs(c, nextPlace, step + 1);
    waitFor(smem.stateFull, step);
    waitFor(smem.dstateFull, step);
    dotStates(smem, !place.chunk.isFirst && !place.chunk.isLast);
    release(smem.stateEmpty);
    release(smem.dstateEmpty);
    waitFor(smem.headFull[step % 2], step / 2);
    v.dot(smem, step);
    v.load(c, place, 32);
    v.dot(smem, step);
    if (hasNext)
      signalOutputs(c, step + 1);
    waitFor(smem.sumsFull[step % 2], step / 2);
    namedSync(3, 128); // along and dots are whole
    if (threadIdx.x % 128 < 32)
      finishGates(c, place, step);
    namedSync(3, 128);
    release(smem.sumsEmpty[step % 2]);
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
    StepPlace nextPlace = hasNext ? place.behind(c, next) : place;
    loadStates(c, place, step);
    if (hasNext)
      prefetchStates(c, nextPlace);
    if (at.group == 0) {
      loadRows(c, at.item, use++);
      prefetchRows(c, at.item + gridDim.x);
    }
    if (hasNext)
      loadHead(c, nextPlace, step + 1);
    at = next;
    place = nextPlace;
  }
}

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_GATEDDELTAGRADGATES_CUH
