//===- GradNorm.cu - Global gradient norm ----------------------*- CUDA -*-===//
//
// kernel.grad_norm and its two halves for several ranks. One block sums the
// squares of gradNormBlock elements of one tensor in float64; a second kernel
// of one block adds the partial sums. Which thread adds what depends on shapes
// alone.
//
//===----------------------------------------------------------------------===//

#include "RowKernels.h"
#include "Vectors.cuh"
#include "runtime/kernels/cuda/Kernels.h"

using namespace qwen;
using namespace qwen::cuda;

namespace {

constexpr int threads = 256;
constexpr int lanes = 4;
constexpr int batch = 4; ///< loads of a thread in flight together
constexpr int finishThreads = 1024;

/// Sum over the block, in thread 0; the order is fixed.
template <int Threads> __device__ double blockSum(double value) {
  __shared__ double warpSums[Threads / 32];
  for (int step = 16; step > 0; step /= 2)
    value += __shfl_down_sync(~0u, value, step);
  if (threadIdx.x % 32 == 0)
    warpSums[threadIdx.x / 32] = value;
  __syncthreads();
  double sum = 0;
  if (threadIdx.x == 0)
    for (int warp = 0; warp < Threads / 32; ++warp)
      sum += warpSums[warp];
  return sum;
}

/// S is the stored type of the gradients.
template <typename S>
__global__ void __launch_bounds__(threads)
    sumSquares(const TensorEntry *entries, const uint32_t *tensorOfBlock,
               double *partials) {
  const TensorEntry &tensor = entries[tensorOfBlock[blockIdx.x]];
  int64_t begin = int64_t(blockIdx.x - tensor.firstBlock) * gradNormBlock;
  int count = int(min(tensor.elements - begin, gradNormBlock));
  const S *grad = static_cast<const S *>(tensor.grad) + begin;
  double sums[lanes] = {};
  int whole = count / lanes * lanes;
  for (int first = threadIdx.x * lanes; first < whole;
       first += batch * threads * lanes) {
    Vector<S, lanes> rows[batch];
#pragma unroll
    for (int k = 0; k < batch; ++k) {
      int i = first + k * threads * lanes;
      rows[k] =
          i < whole ? Vector<S, lanes>::load(grad + i) : Vector<S, lanes>{};
    }
#pragma unroll
    for (int k = 0; k < batch; ++k)
#pragma unroll
      for (int c = 0; c < lanes; ++c) {
        double x = rows[k][c];
        sums[c] = fma(x, x, sums[c]);
      }
  }
  if (int i = whole + int(threadIdx.x); i < count) {
    double x = float(grad[i]);
    sums[0] = fma(x, x, sums[0]);
  }
  double sum = blockSum<threads>((sums[0] + sums[1]) + (sums[2] + sums[3]));
  if (threadIdx.x == 0)
    partials[blockIdx.x] = sum;
}

/// Sum of the blocks' sums, in thread 0 of a block of finishThreads.
__device__ double sumPartials(const double *partials, int64_t count) {
  double sum = 0;
#pragma unroll 8
  for (int64_t i = threadIdx.x; i < count; i += finishThreads)
    sum += partials[i];
  return blockSum<finishThreads>(sum);
}

__device__ void writeStats(double total, const float *hyper, float *stats) {
  double norm = sqrt(total), limit = hyper[5];
  stats[0] = float(norm);
  stats[1] = float(limit > 0 ? fmin(1.0, limit / (norm + 1e-6)) : 1.0);
  stats[2] = isfinite(norm) ? 1 : 0;
  stats[3] = 0;
}

__global__ void __launch_bounds__(finishThreads)
    finish(const double *partials, int64_t count, const float *hyper,
           float *stats) {
  double total = sumPartials(partials, count);
  if (threadIdx.x == 0)
    writeStats(total, hyper, stats);
}

__global__ void __launch_bounds__(finishThreads)
    finishLocal(const double *partials, int64_t count, double *partial) {
  double total = sumPartials(partials, count);
  if (threadIdx.x == 0)
    *partial = total;
}

/// One thread: the order of the ranks is that of the sum.
__global__ void combine(const double *partials, int64_t ranks,
                        const float *hyper, float *stats) {
  double total = 0;
  for (int64_t rank = 0; rank < ranks; ++rank)
    total += partials[rank];
  writeStats(total, hyper, stats);
}

/// Sums the squares of each block's elements into the scratch.
cudaError_t sumBlocks(const std::vector<ConstBuffer> &grads,
                      const LaunchContext &context,
                      const GradNormScratch &scratch) {
  Carver carver(context.table.data());
  TensorTable table(carver, grads, gradNormBlock);
  return withStorage(grads[0].dtype, [&](auto tag) {
    sumSquares<decltype(tag)><<<table.blocks, threads, 0, context.stream>>>(
        table.entries, table.tensorOfBlock, scratch.partials);
    return cudaGetLastError();
  });
}

} // namespace

cudaError_t qwen::cuda::launch(const GradNormArgs &args,
                               const LaunchContext &context) {
  Carver carver(context.workspace.data());
  GradNormScratch scratch(carver, args.grads);
  if (cudaError_t error = sumBlocks(args.grads, context, scratch))
    return error;
  finish<<<1, finishThreads, 0, context.stream>>>(
      scratch.partials, scratch.blocks, args.hyper.as<float>(),
      args.stats.as<float>());
  return cudaGetLastError();
}

cudaError_t qwen::cuda::launch(const GradNormLocalArgs &args,
                               const LaunchContext &context) {
  Carver carver(context.workspace.data());
  GradNormScratch scratch(carver, args.grads);
  if (cudaError_t error = sumBlocks(args.grads, context, scratch))
    return error;
  finishLocal<<<1, finishThreads, 0, context.stream>>>(
      scratch.partials, scratch.blocks, args.partial.as<double>());
  return cudaGetLastError();
}

cudaError_t qwen::cuda::launch(const GradNormCombineArgs &args,
                               const LaunchContext &context) {
  combine<<<1, 1, 0, context.stream>>>(
      args.partials.as<double>(), args.partials.elements(),
      args.hyper.as<float>(), args.stats.as<float>());
  return cudaGetLastError();
}
