//===- GatedDeltaSchedule.cu - Chunks and documents of a pack --*- CUDA -*-===//
//
// Reads cu_seqlens on the device: the first block lists the chunks and the
// documents, longest first; the other blocks zero output rows outside all
// documents.
//
//===----------------------------------------------------------------------===//

#include "GatedDeltaParts.cuh"

using namespace qwen;
using namespace qwen::cuda;

namespace {

constexpr int threads = 1024;

/// The first document starts at token 0, and boundaries are held inside the
/// pack, whatever the buffer holds.
QWEN_DEVICE int boundary(const int *cuSeqlens, int i, int tokens) {
  return i == 0 ? 0 : min(max(cuSeqlens[i], 0), tokens);
}

/// Inclusive sum over the block's threads.
__device__ int blockScan(int value, int *warpSums) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int step = 1; step < 32; step *= 2) {
    int other = __shfl_up_sync(~0u, value, step);
    value += lane >= step ? other : 0;
  }
  if (lane == 31)
    warpSums[warp] = value;
  __syncthreads();
  if (warp == 0) {
    int sum = warpSums[lane];
    for (int step = 1; step < 32; step *= 2) {
      int other = __shfl_up_sync(~0u, sum, step);
      sum += lane >= step ? other : 0;
    }
    warpSums[lane] = sum;
  }
  __syncthreads();
  int before = warp > 0 ? warpSums[warp - 1] : 0;
  __syncthreads();
  return value + before;
}

/// Fills `documents`; returns the number of chunks, which never exceeds the
/// scratch even where boundaries decrease.
__device__ int listDocuments(const GatedDeltaSizes &sizes,
                             const GatedDeltaBuffers &scratch,
                             const int *cuSeqlens, int *warpSums) {
  int chunks = 0;
  for (int base = 0; base < sizes.documents; base += threads) {
    int d = base + int(threadIdx.x), begin = 0, length = 0;
    if (d < sizes.documents) {
      begin = boundary(cuSeqlens, d, sizes.tokens);
      length = max(0, boundary(cuSeqlens, d + 1, sizes.tokens) - begin);
    }
    int count = (length + chunkSize - 1) / chunkSize;
    int sum = blockScan(count, warpSums);
    int first = chunks + sum - count;
    if (first + count > sizes.maxChunks)
      count = length = 0;
    if (d < sizes.documents)
      scratch.documents[d] = {begin, length, first, count};
    if (threadIdx.x == threads - 1)
      warpSums[32] = sum;
    __syncthreads();
    chunks += warpSums[32];
    __syncthreads();
  }
  return min(chunks, sizes.maxChunks);
}

/// Each document's place among the non-empty ones by falling length.
__device__ int sortDocuments(const GatedDeltaSizes &sizes,
                             const GatedDeltaBuffers &scratch, int *counts) {
  int present = 0;
  for (int base = 0; base < sizes.documents; base += threads) {
    int d = base + int(threadIdx.x), rank = 0;
    DocumentEntry mine = {};
    if (d < sizes.documents)
      mine = scratch.documents[d];
    for (int from = 0; from < sizes.documents; from += threads) {
      __syncthreads();
      int other = from + int(threadIdx.x);
      counts[threadIdx.x] =
          other < sizes.documents ? scratch.documents[other].chunks : 0;
      __syncthreads();
      int to = min(threads, sizes.documents - from);
      for (int e = 0; e < to; ++e)
        rank += counts[e] > mine.chunks ||
                (counts[e] == mine.chunks && from + e < d);
    }
    if (mine.chunks > 0)
      scratch.sorted[rank] = mine;
    present += __syncthreads_count(mine.chunks > 0);
  }
  return present;
}

__device__ void listChunks(const GatedDeltaSizes &sizes,
                           const GatedDeltaBuffers &scratch) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int d = warp; d < sizes.documents; d += threads / 32) {
    DocumentEntry document = scratch.documents[d];
    for (int i = lane; i < document.chunks; i += 32)
      scratch.chunks[document.chunk + i] = {
          document.token + i * chunkSize,
          min(chunkSize, document.length - i * chunkSize), i == 0,
          i + 1 == document.chunks};
  }
}

template <typename Unit>
__device__ void zeroRows(const TailRows &out, int first, int tokens, int blocks,
                         int block) {
  int units = out.rowBytes / int(sizeof(Unit));
  int64_t rowUnits = int64_t(out.heads) * units;
  int64_t total = (tokens - first) * rowUnits;
  for (int64_t i = block * threads + int(threadIdx.x); i < total;
       i += int64_t(blocks) * threads) {
    int64_t token = first + i / rowUnits, inner = i % rowUnits;
    *reinterpret_cast<Unit *>(out.data + token * out.tokenStride +
                              inner / units * out.headStride +
                              inner % units * sizeof(Unit)) = Unit{};
  }
}

__global__ void __launch_bounds__(threads)
    schedule(GatedDeltaSizes sizes, GatedDeltaBuffers scratch,
             const int *cuSeqlens, Tails tails) {
  __shared__ int warpSums[33], counts[threads];
  if (blockIdx.x > 0) {
    int first = boundary(cuSeqlens, sizes.documents, sizes.tokens);
    for (int i = 0; i < tails.count; ++i)
      if (tails.rows[i].rowBytes % 16 == 0)
        zeroRows<uint4>(tails.rows[i], first, sizes.tokens, gridDim.x - 1,
                        blockIdx.x - 1);
      else
        zeroRows<uint16_t>(tails.rows[i], first, sizes.tokens, gridDim.x - 1,
                           blockIdx.x - 1);
    return;
  }
  int chunks = listDocuments(sizes, scratch, cuSeqlens, warpSums);
  __syncthreads();
  listChunks(sizes, scratch);
  int documents = sortDocuments(sizes, scratch, counts);
  if (threadIdx.x == 0)
    *scratch.header = {chunks, documents, 0, 0};
}

} // namespace

int qwen::cuda::multiprocessors() {
  int device = 0, count = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  return count;
}

cudaError_t qwen::cuda::enqueueSchedule(const GatedDeltaSizes &sizes,
                                        const GatedDeltaBuffers &scratch,
                                        const int *cuSeqlens,
                                        const Tails &tails,
                                        cudaStream_t stream) {
  schedule<<<1 + multiprocessors() / 2, threads, 0, stream>>>(sizes, scratch,
                                                              cuSeqlens, tails);
  return cudaGetLastError();
}
