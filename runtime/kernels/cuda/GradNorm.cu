//===- GradNorm.cu - Global gradient norm ----------------------*- CUDA -*-===//
//
// kernel.grad_norm. One block sums the squares of gradNormBlock elements of one
// tensor in float64; a second kernel of one block adds the partial sums. Which
// thread adds what depends on shapes alone.
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

__global__ void __launch_bounds__(threads)
    sumSquares(const TensorEntry *entries, const uint32_t *tensorOfBlock,
               double *partials) {
  const TensorEntry &tensor = entries[tensorOfBlock[blockIdx.x]];
  int64_t begin = int64_t(blockIdx.x - tensor.firstBlock) * gradNormBlock;
  int count = int(min(tensor.elements - begin, gradNormBlock));
  const float *grad = static_cast<const float *>(tensor.grad) + begin;
  double sums[lanes] = {};
  int whole = count / lanes * lanes;
  for (int first = threadIdx.x * lanes; first < whole;
       first += batch * threads * lanes) {
    Vector<float, lanes> rows[batch];
#pragma unroll
    for (int k = 0; k < batch; ++k) {
      int i = first + k * threads * lanes;
      rows[k] = i < whole ? Vector<float, lanes>::load(grad + i)
                          : Vector<float, lanes>{};
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
    double x = grad[i];
    sums[0] = fma(x, x, sums[0]);
  }
  double sum = blockSum<threads>((sums[0] + sums[1]) + (sums[2] + sums[3]));
  if (threadIdx.x == 0)
    partials[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(finishThreads)
    finish(const double *partials, int64_t count, const float *hyper,
           float *stats) {
  double sum = 0;
#pragma unroll 8
  for (int64_t i = threadIdx.x; i < count; i += finishThreads)
    sum += partials[i];
  double total = blockSum<finishThreads>(sum);
  if (threadIdx.x > 0)
    return;
  double norm = sqrt(total), limit = hyper[5];
  stats[0] = float(norm);
  stats[1] = float(limit > 0 ? fmin(1.0, limit / (norm + 1e-6)) : 1.0);
  stats[2] = isfinite(norm) ? 1 : 0;
  stats[3] = 0;
}

} // namespace

cudaError_t qwen::cuda::launch(const GradNormArgs &args,
                               const LaunchContext &context) {
  Carver tableCarver(context.table.data()), carver(context.workspace.data());
  TensorTable table(tableCarver, args.grads, gradNormBlock);
  GradNormScratch scratch(carver, args.grads);
  sumSquares<<<table.blocks, threads, 0, context.stream>>>(
      table.entries, table.tensorOfBlock, scratch.partials);
  if (cudaError_t error = cudaGetLastError())
    return error;
  finish<<<1, finishThreads, 0, context.stream>>>(
      scratch.partials, table.blocks, args.hyper.as<float>(),
      args.stats.as<float>());
  return cudaGetLastError();
}
