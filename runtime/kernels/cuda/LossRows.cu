//===- LossRows.cu - Losses and gradients of rows of logits ----*- CUDA -*-===//
//
// A cluster of blocks holds a row of logits in registers: memory is read once
// and, for gradients, written once. The label's logit comes in float32 from
// formTargets and takes the place of the rounded one in every sum, so that the
// loss of a token that the model is sure of has no rounding of a logit in it.
//
// Threads, warps and blocks are combined in trees of fixed shape.
//
//===----------------------------------------------------------------------===//

#include "LossRows.h"

#include "Vectors.cuh"
#include "qwen/Plan/Scratch.h"

#include <cooperative_groups.h>

using namespace qwen;
using namespace qwen::cuda;
namespace cg = cooperative_groups;

namespace {

using Eight = Vector<__nv_bfloat16, 8>;

//===----------------------------------------------------------------------===//
// Logits of the labels
//===----------------------------------------------------------------------===//

constexpr int targetThreads = 256;

/// Sum of a lane's terms of x w, `Wide` with loads of 16 bytes.
template <bool Wide>
__device__ float partialProduct(const __nv_bfloat16 *x, const __nv_bfloat16 *w,
                                int hidden, int lane) {
  float sum = 0;
  if constexpr (Wide) {
#pragma unroll 4
    for (int i = lane * 8; i < hidden; i += 32 * 8) {
      Eight a = Eight::load(x + i), b = Eight::load(w + i);
#pragma unroll
      for (int c = 0; c < 8; ++c)
        sum = fmaf(a[c], b[c], sum);
    }
  } else {
    for (int i = lane; i < hidden; i += 32)
      sum = fmaf(__bfloat162float(x[i]), __bfloat162float(w[i]), sum);
  }
  return sum;
}

/// A warp a token.
template <bool Wide>
__global__ void __launch_bounds__(targetThreads) targetLogits(LossRows p) {
  int64_t row = int64_t(blockIdx.x) * (targetThreads / 32) + threadIdx.x / 32;
  if (row >= p.rows)
    return;
  int64_t label = p.labels[row];
  int lane = threadIdx.x % 32;
  if (!p.isSupervised(label))
    return;
  float sum = partialProduct<Wide>(p.x + row * p.strideX,
                                   p.weight + label * p.strideWeight,
                                   int(p.hidden), lane);
#pragma unroll
  for (int step = 16; step > 0; step /= 2)
    sum += __shfl_xor_sync(~0u, sum, step);
  if (lane == 0)
    p.targets[row] = sum;
}

//===----------------------------------------------------------------------===//
// Losses and gradients
//===----------------------------------------------------------------------===//

constexpr int rowThreads = 512;
constexpr int rowWarps = rowThreads / 32;
/// Vectors of eight logits in a thread's registers.
constexpr int held = 8;
constexpr int maxCluster = 8;
static_assert(int64_t(maxCluster) * rowThreads * held * 8 >=
              (int64_t(1) << 18)); // maxVocabulary

constexpr float log2e = 1.44269504088896340736f;
constexpr uint32_t minusInfinities = 0xff80ff80u;

__device__ float exp2Fast(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// sum = sum over elements of exp(x - greatest).
struct Exponentials {
  float greatest, sum;
  __device__ float relativeTo(float other) const {
    // Nothing but minus infinities: no difference of infinities.
    return sum == 0 ? 0 : sum * exp2Fast((greatest - other) * log2e);
  }
};

/// The same for all lanes: a tree of fixed shape over the warp.
__device__ Exponentials combineLanes(Exponentials mine) {
  float greatest = mine.greatest;
#pragma unroll
  for (int step = 16; step > 0; step /= 2)
    greatest = fmaxf(greatest, __shfl_xor_sync(~0u, greatest, step));
  float sum = mine.relativeTo(greatest);
#pragma unroll
  for (int step = 16; step > 0; step /= 2)
    sum += __shfl_xor_sync(~0u, sum, step);
  return {greatest, sum};
}

/// Combines up to 32 pairs; called by whole warps.
__device__ Exponentials combine(const Exponentials *pairs, int count) {
  int lane = threadIdx.x % 32;
  return combineLanes(lane < count ? pairs[lane] : Exponentials{-INFINITY, 0});
}

/// The part of a row that a thread holds: vectors first, first + rowThreads...
/// before `end`.
struct HeldLogits {
  Eight vectors[held];
  int first, end;
  int target; ///< place of the label's logit in the row

  __device__ HeldLogits(const LossRows &p, int target, int rank, int ranks)
      : target(target) {
    int count = int((p.vocabulary + 7) / 8);
    int slice = (count + ranks - 1) / ranks;
    first = rank * slice + int(threadIdx.x);
    end = min((rank + 1) * slice, count);
  }
  __device__ int place(int k) const { return first + k * rowThreads; }

  /// Loads; the label's logit and what lies behind the row become minus
  /// infinity.
  __device__ void load(const __nv_bfloat16 *row, int vocabulary) {
#pragma unroll
    for (int k = 0; k < held; ++k)
      if (place(k) < end)
        vectors[k] = Eight::load(row + place(k) * 8);
      else
        for (uint32_t &word : vectors[k].word)
          word = minusInfinities;
#pragma unroll
    for (int k = 0; k < held; ++k) {
      if (place(k) == target / 8)
        exclude(vectors[k], target % 8, target % 8 + 1);
      if (place(k) == vocabulary / 8)
        exclude(vectors[k], vocabulary % 8, 8);
    }
  }
  __device__ static void exclude(Eight &vector, int begin, int end) {
#pragma unroll
    for (int c = 0; c < 8; ++c)
      if (c >= begin && c < end) {
        uint32_t keep = c % 2 ? 0x0000ffffu : 0xffff0000u;
        uint32_t &word = vector.word[c / 2];
        word = (word & keep) | (minusInfinities & ~keep);
      }
  }
  /// Whether this thread holds the label's place.
  __device__ bool ownsTarget() const {
    int offset = target / 8 - first;
    return offset >= 0 && target / 8 < end && offset % rowThreads == 0;
  }

  __device__ float greatest() const {
    __nv_bfloat162 most = pair(minusInfinities);
#pragma unroll
    for (int k = 0; k < held; ++k)
#pragma unroll
      for (uint32_t word : vectors[k].word)
        most = __hmax2(most, pair(word));
    return fmaxf(__low2float(most), __high2float(most));
  }
  __device__ static __nv_bfloat162 pair(uint32_t word) {
    return reinterpret_cast<__nv_bfloat162 &>(word);
  }
  __device__ float sum(float greatest) const {
    float sums[2] = {};
#pragma unroll
    for (int k = 0; k < held; ++k)
#pragma unroll
      for (int c = 0; c < 8; ++c)
        sums[c % 2] += exp2Fast((vectors[k][c] - greatest) * log2e);
    return sums[0] + sums[1];
  }

  /// Stores scale 2^((logit - greatest) log2e - logSum2), `atTarget` for the
  /// label.
  __device__ void storeGradients(__nv_bfloat16 *row, float greatest,
                                 float logSum2, float scale,
                                 float atTarget) const {
#pragma unroll
    for (int k = 0; k < held; ++k) {
      if (place(k) >= end)
        continue;
      float out[8];
#pragma unroll
      for (int c = 0; c < 8; ++c)
        out[c] =
            scale * exp2Fast(fmaf(vectors[k][c] - greatest, log2e, -logSum2));
      Eight::rounded(out).store(row + place(k) * 8);
    }
    if (ownsTarget())
      row[target] = __float2bfloat16_rn(atTarget);
  }
  __device__ void storeZeros(__nv_bfloat16 *row) const {
#pragma unroll
    for (int k = 0; k < held; ++k)
      if (place(k) < end)
        Eight{}.store(row + place(k) * 8);
  }
};

/// The sum of a thread's logits, the label's included.
__device__ Exponentials sumHeld(const HeldLogits &logits, float target) {
  bool owner = logits.ownsTarget();
  float greatest = logits.greatest();
  if (owner)
    greatest = fmaxf(greatest, target);
  // A thread behind the row has minus infinities only, and a sum of 0.
  float sum = greatest == -INFINITY ? 0 : logits.sum(greatest);
  if (owner)
    sum += exp2Fast((target - greatest) * log2e);
  return {greatest, sum};
}

/// A cluster a row.
template <bool Gradient>
__global__ void __launch_bounds__(rowThreads, 2) lossRows(LossRows p) {
  __shared__ Exponentials warps[rowWarps], blocks[maxCluster];
  cg::cluster_group cluster = cg::this_cluster();
  int rank = int(cluster.block_rank()), ranks = int(cluster.num_blocks());
  int64_t row = blockIdx.x / ranks;
  __nv_bfloat16 *logits = p.logits + row * p.stride;
  int label = p.labels[row];
  HeldLogits mine(p, label, rank, ranks);
  if (!p.isSupervised(label)) { // the whole cluster
    if (Gradient)
      mine.storeZeros(logits);
    if (rank == 0 && threadIdx.x == 0)
      p.nll[row] = 0;
    return;
  }
  // A block's memory may be written once it runs.
  auto started = cluster.barrier_arrive();
  mine.load(logits, int(p.vocabulary));
  float target = p.targets[row];
  Exponentials warpSum = combineLanes(sumHeld(mine, target));
  if (threadIdx.x % 32 == 0)
    warps[threadIdx.x / 32] = warpSum;
  __syncthreads();
  cluster.barrier_wait(std::move(started));
  if (threadIdx.x < 32) {
    Exponentials blockSum = combine(warps, rowWarps);
    if (int(threadIdx.x) < ranks)
      cluster.map_shared_rank(blocks, int(threadIdx.x))[rank] = blockSum;
  }
  cluster.sync();
  Exponentials all = combine(blocks, ranks);
  float nll = logf(all.sum) + (all.greatest - target);
  if (rank == 0 && threadIdx.x == 0)
    p.nll[row] = nll;
  if (!Gradient)
    return;
  // Whoever withholds an update looks at the gradients alone: an infinite loss
  // must not have finite ones.
  float logSum2 = log2f(all.sum), scale = isfinite(nll) ? p.dnll[row] : NAN;
  float share = exp2Fast(fmaf(target - all.greatest, log2e, -logSum2));
  mine.storeGradients(logits, all.greatest, logSum2, scale,
                      scale * (share - 1));
}

bool isAligned(const void *address) {
  return reinterpret_cast<uintptr_t>(address) % 16 == 0;
}

} // namespace

cudaError_t qwen::cuda::formTargets(const LossRows &p, cudaStream_t stream) {
  bool wide = p.hidden % 8 == 0 && p.strideX % 8 == 0 &&
              p.strideWeight % 8 == 0 && isAligned(p.x) && isAligned(p.weight);
  unsigned blocks = unsigned(ceilDiv(p.rows, targetThreads / 32));
  (wide ? targetLogits<true>
        : targetLogits<false>)<<<blocks, targetThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

cudaError_t qwen::cuda::formLosses(const LossRows &p, cudaStream_t stream) {
  unsigned ranks = 1;
  while (int64_t(ranks) * rowThreads * held * 8 < p.vocabulary)
    ranks *= 2;
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {ranks, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(p.rows) * ranks);
  config.blockDim = dim3(rowThreads);
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, p.dnll ? lossRows<true> : lossRows<false>,
                            p);
}
