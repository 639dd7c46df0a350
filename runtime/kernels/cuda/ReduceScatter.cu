//===- ReduceScatter.cu - What is left of a sum over ranks -----*- CUDA -*-===//
//
// kernel.reduce_scatter after the ranks have added: the rank's part of the sum,
// in float32, is stored in its shard or added to it, and rounded once.
//
//===----------------------------------------------------------------------===//

#include "Vectors.cuh"
#include "qwen/Plan/Scratch.h"
#include "runtime/kernels/cuda/Kernels.h"

#include <algorithm>

using namespace qwen;
using namespace qwen::cuda;

namespace {

constexpr int threads = 256;
constexpr int lanes = 8;
/// Blocks of a launch, a few for each multiprocessor; the rest is a loop.
constexpr int64_t mostBlocks = 1056;

template <typename S, bool Accumulate>
QWEN_DEVICE void storeVector(const float *sums, S *shard) {
  auto sum = Vector<float, lanes>::load(sums);
  Vector<S, lanes> before{};
  if constexpr (Accumulate)
    before = Vector<S, lanes>::load(shard);
  float x[lanes];
#pragma unroll
  for (int i = 0; i < lanes; ++i)
    x[i] = Accumulate ? before[i] + sum[i] : sum[i];
  Vector<S, lanes>::rounded(x).store(shard);
}

template <typename S, bool Accumulate>
__global__ void __launch_bounds__(threads)
    store(const float *sums, S *shard, int64_t elements) {
  int64_t step = int64_t(gridDim.x) * threads * lanes;
  int64_t first = (int64_t(blockIdx.x) * threads + threadIdx.x) * lanes;
  int64_t whole = elements / lanes * lanes;
  for (int64_t i = first; i < whole; i += step)
    storeVector<S, Accumulate>(sums + i, shard + i);
  int64_t rest = whole + threadIdx.x;
  if (blockIdx.x == 0 && rest < elements)
    shard[rest] = S(Accumulate ? float(shard[rest]) + sums[rest] : sums[rest]);
}

} // namespace

cudaError_t qwen::cuda::storeSums(const float *sums,
                                  const ReduceScatterArgs &args,
                                  cudaStream_t stream) {
  int64_t elements = args.shard.elements();
  int64_t blocks =
      std::clamp<int64_t>(ceilDiv(elements, threads * lanes), 1, mostBlocks);
  return withStorage(args.shard.dtype, [&](auto tag) {
    using S = decltype(tag);
    S *shard = args.shard.as<S>();
    if (args.accumulate)
      store<S, true>
          <<<unsigned(blocks), threads, 0, stream>>>(sums, shard, elements);
    else
      store<S, false>
          <<<unsigned(blocks), threads, 0, stream>>>(sums, shard, elements);
    return cudaGetLastError();
  });
}
