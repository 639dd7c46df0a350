//===- AttentionSchedule.cu - Blocks of a pack's documents -----*- CUDA -*-===//
//
// Reads cu_seqlens on the device. Block 0 of the grid lists pairs of blocks of
// queries, block 1 blocks of keys, each the longest work first; the others zero
// output rows outside all documents.
//
//===----------------------------------------------------------------------===//

#include "AttentionParts.cuh"

using namespace qwen;
using namespace qwen::cuda;

namespace {

constexpr int threads = 1024, listers = 2;

/// The first document starts at token 0, and boundaries are held inside the
/// pack, whatever the buffer holds.
QWEN_DEVICE int boundary(const int *cuSeqlens, int i, int tokens) {
  return i == 0 ? 0 : min(max(cuSeqlens[i], 0), tokens);
}

/// Running counts over documents.
struct Counts {
  int blocks, pairs, squares;
};
QWEN_DEVICE Counts sum(Counts a, Counts b) {
  return {a.blocks + b.blocks, a.pairs + b.pairs, a.squares + b.squares};
}

/// Inclusive sums over the block's threads; `total` gets the last.
__device__ Counts blockScan(Counts value, Counts *warpSums, Counts &total) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  auto scanWarp = [&](Counts c) {
    for (int step = 1; step < 32; step *= 2) {
      Counts other = {__shfl_up_sync(~0u, c.blocks, step),
                      __shfl_up_sync(~0u, c.pairs, step),
                      __shfl_up_sync(~0u, c.squares, step)};
      if (lane >= step)
        c = sum(c, other);
    }
    return c;
  };
  value = scanWarp(value);
  if (lane == 31)
    warpSums[warp] = value;
  __syncthreads();
  if (warp == 0)
    warpSums[lane] = scanWarp(warpSums[lane]);
  __syncthreads();
  if (warp > 0)
    value = sum(value, warpSums[warp - 1]);
  total = warpSums[31];
  __syncthreads();
  return value;
}

/// Entry i of the list in the order of documents, and the work it stands for.
struct Unsorted {
  AttentionTile *tiles;
  bool isPairs;
  QWEN_DEVICE int work(int i) const {
    return isPairs ? tiles[i].index : tiles[i].blocks - tiles[i].index;
  }
};

/// Documents end where a boundary decreases, so that no content of the buffer
/// leads outside the scratch.
__device__ int countDocuments(const int *cuSeqlens, int slots, int &shared) {
  if (threadIdx.x == 0)
    shared = slots;
  __syncthreads();
  for (int d = threadIdx.x; d < slots; d += threads)
    if (cuSeqlens[d] > cuSeqlens[d + 1])
      atomicMin(&shared, d);
  __syncthreads();
  return shared;
}

/// Appends the tiles of all documents to `list`; returns their number.
__device__ int listTiles(const int *cuSeqlens, int documents, int tokens,
                         const Unsorted &list, Counts *warpSums) {
  Counts before = {};
  for (int base = 0; base < documents; base += threads) {
    int d = base + int(threadIdx.x), begin = 0, length = 0;
    if (d < documents) {
      begin = boundary(cuSeqlens, d, tokens);
      length = boundary(cuSeqlens, d + 1, tokens) - begin;
    }
    int blocks = (length + blockRows - 1) / blockRows;
    Counts own = {blocks, (blocks + 1) / 2, blocks * (blocks + 1) / 2}, total;
    Counts end = sum(before, blockScan(own, warpSums, total));
    before = sum(before, total);
    int count = list.isPairs ? own.pairs : own.blocks;
    int first = list.isPairs ? end.pairs - own.pairs : end.blocks - own.blocks;
    for (int i = 0; i < count; ++i)
      list.tiles[first + i] = {{begin, length},
                               i,
                               blocks,
                               end.blocks - own.blocks,
                               end.squares - own.squares};
  }
  return list.isPairs ? before.pairs : before.blocks;
}

/// Most work first; ties as in the pack.
__device__ void sortTiles(const Unsorted &list, AttentionTile *sorted,
                          int count, int *work) {
  for (int base = 0; base < count; base += threads) {
    int mine = base + int(threadIdx.x), rank = 0;
    int own = mine < count ? list.work(mine) : 0;
    for (int from = 0; from < count; from += threads) {
      __syncthreads();
      int other = from + int(threadIdx.x);
      work[threadIdx.x] = other < count ? list.work(other) : 0;
      __syncthreads();
      int to = min(threads, count - from);
      for (int i = 0; i < to; ++i)
        rank += work[i] > own || (work[i] == own && from + i < mine);
    }
    if (mine < count)
      sorted[rank] = list.tiles[mine];
  }
}

template <typename Unit>
__device__ void zeroRows(const UncoveredRows &out, int first, int tokens) {
  int64_t rowUnits = int64_t(out.heads) * out.units;
  int64_t total = (tokens - first) * rowUnits;
  int64_t step = int64_t(gridDim.x - listers) * threads;
  for (int64_t i = (blockIdx.x - listers) * threads + threadIdx.x; i < total;
       i += step) {
    int64_t token = first + i / rowUnits, inner = i % rowUnits;
    *reinterpret_cast<Unit *>(out.data + token * out.tokenStride +
                              inner / out.units * out.headStride +
                              inner % out.units * sizeof(Unit)) = Unit{};
  }
}

__device__ void zeroUncovered(const UncoveredOutputs &outputs, int first,
                              int tokens) {
  for (int i = 0; i < outputs.count; ++i)
    if (outputs.rows[i].unitBytes == 16)
      zeroRows<uint4>(outputs.rows[i], first, tokens);
    else
      zeroRows<float>(outputs.rows[i], first, tokens);
}

__global__ void __launch_bounds__(threads)
    schedule(AttentionSizes sizes, AttentionBuffers scratch,
             const int *cuSeqlens, bool isBackward, UncoveredOutputs outputs) {
  __shared__ Counts warpSums[32];
  __shared__ int work[threads], shared;
  int documents = countDocuments(cuSeqlens, sizes.documents, shared);
  if (blockIdx.x >= listers) {
    int covered =
        documents > 0 ? boundary(cuSeqlens, documents, sizes.tokens) : 0;
    zeroUncovered(outputs, covered, sizes.tokens);
    return;
  }
  bool isPairs = blockIdx.x == 0;
  if (!isPairs && !isBackward)
    return;
  AttentionHeader &header = *scratch.header;
  if (isPairs && threadIdx.x < maxAttentionPasses) {
    header.nextKeys[threadIdx.x] = header.nextQueries[threadIdx.x] = 0;
    header.nextForward = 0;
  }
  Unsorted list = {scratch.unsorted + (isPairs ? 0 : sizes.maxPairs), isPairs};
  int count = listTiles(cuSeqlens, documents, sizes.tokens, list, warpSums);
  __syncthreads();
  sortTiles(list, isPairs ? scratch.pairs : scratch.blocks, count, work);
  if (threadIdx.x == 0)
    (isPairs ? header.pairs : header.blocks) = count;
}

} // namespace

cudaError_t qwen::cuda::enqueueAttentionSchedule(
    const AttentionSizes &sizes, const AttentionBuffers &scratch,
    const int *cuSeqlens, bool isBackward, const UncoveredOutputs &outputs,
    cudaStream_t stream) {
  schedule<<<listers + multiprocessors() / 2, threads, 0, stream>>>(
      sizes, scratch, cuSeqlens, isBackward, outputs);
  return cudaGetLastError();
}
