//===- EmbeddingShard.cu - A rank's part of rows by token id ---*- CUDA -*-===//
//
// kernel.embedding_shard. One block a token. The shard begins and ends where
// vectors of the table do, so that each is inside or outside as a whole.
//
//===----------------------------------------------------------------------===//

#include "Vectors.cuh"
#include "runtime/kernels/cuda/Kernels.h"

using namespace qwen;
using namespace qwen::cuda;

namespace {

constexpr int threads = 128;
constexpr int lanes = 8;

template <typename S>
__global__ void __launch_bounds__(threads)
    lookUp(const S *shard, const int *ids, float *out, int64_t outStride,
           int64_t held, int64_t begin, int64_t rows, int width) {
  int64_t token = blockIdx.x, id = ids[token];
  bool known = id >= 0 && id < rows;
  int64_t first = begin + id * width;
  for (int i = threadIdx.x * lanes; i < width; i += threads * lanes) {
    int64_t at = first + i;
    Vector<S, lanes> from{};
    if (known && at >= 0 && at < held)
      from = Vector<S, lanes>::load(shard + at);
    float x[lanes];
#pragma unroll
    for (int k = 0; k < lanes; ++k)
      x[k] = from[k];
    Vector<float, lanes>::rounded(x).store(out + token * outStride + i);
  }
}

} // namespace

cudaError_t qwen::cuda::launch(const EmbeddingShardArgs &args,
                               const LaunchContext &context) {
  return withStorage(args.shard.dtype, [&](auto tag) {
    using S = decltype(tag);
    lookUp<S><<<args.ids.dim(0), threads, 0, context.stream>>>(
        args.shard.as<S>(), args.ids.as<int>(), args.out.as<float>(),
        args.out.strides[0], args.shard.elements(), args.begin, args.rows,
        int(args.out.dim(1)));
    return cudaGetLastError();
  });
}
