//===- AttentionGrad.cu - Gradients of attention ---------------*- CUDA -*-===//
//
// kernel.attention_grad: schedule, statistics of the query rows, then for each
// pass over key heads the key and value gradients and from their squares of ds
// the query gradients.
//
//===----------------------------------------------------------------------===//

#include "AttentionParts.cuh"
#include "Kernels.h"

using namespace qwen;
using namespace qwen::cuda;

namespace {

constexpr int threads = 256;

struct StatisticsOperands {
  const __nv_bfloat16 *o, *dout;
  int64_t oToken, oHead, doutToken, doutHead; ///< strides in elements
  const float *lse;
  int64_t lseToken, lseHead;
};

/// sum(o do) of one row, by one warp; D / 8 lanes read 16 bytes each.
template <int D>
QWEN_DEVICE float rowProduct(const __nv_bfloat16 *o, const __nv_bfloat16 *d) {
  float sum = 0;
  int lane = threadIdx.x % 32;
  if (lane < D / 8) {
    uint4 x = reinterpret_cast<const uint4 *>(o)[lane];
    uint4 y = reinterpret_cast<const uint4 *>(d)[lane];
    const uint32_t a[4] = {x.x, x.y, x.z, x.w}, b[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sum = fmaf(lowBf16(a[i]), lowBf16(b[i]), sum);
      sum = fmaf(highBf16(a[i]), highBf16(b[i]), sum);
    }
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2)
    sum += __shfl_xor_sync(~0u, sum, step);
  return sum;
}

/// A block of the grid takes one block of queries of one head.
template <int D>
__global__ void __launch_bounds__(threads)
    rowStatistics(AttentionSizes sizes, AttentionBuffers buffers,
                  StatisticsOperands in) {
  if (int(blockIdx.x) >= buffers.header->blocks)
    return;
  AttentionTile tile = buffers.blocks[blockIdx.x];
  int head = blockIdx.y;
  BlockStatistics &out = buffers.statistics[int64_t(head) * sizes.maxBlocks +
                                            tile.firstBlock + tile.index];
#pragma unroll 4
  for (int row = threadIdx.x / 32; row < blockRows; row += threads / 32) {
    int inDocument = tile.index * blockRows + row;
    float lse = __int_as_float(0x7f800000), delta = 0;
    if (inDocument < tile.document.length) {
      int64_t token = tile.document.token + inDocument;
      delta =
          rowProduct<D>(in.o + token * in.oToken + head * in.oHead,
                        in.dout + token * in.doutToken + head * in.doutHead);
      lse = in.lse[token * in.lseToken + head * in.lseHead] * log2OfE;
    }
    if (threadIdx.x % 32 == 0) {
      out.lse[row] = lse;
      out.delta[row] = delta;
    }
  }
}

cudaError_t enqueueStatistics(const AttentionGradArgs &args,
                              const AttentionSizes &sizes,
                              const AttentionBuffers &buffers,
                              cudaStream_t stream) {
  StatisticsOperands operands = {
      args.o.as<__nv_bfloat16>(), args.dout.as<__nv_bfloat16>(),
      args.o.strides[0],          args.o.strides[1],
      args.dout.strides[0],       args.dout.strides[1],
      args.lse.as<float>(),       args.lse.strides[0],
      args.lse.strides[1]};
  return withHeadDim(args.q.dim(2), [&]<int D>() {
    dim3 grid(sizes.maxBlocks, sizes.heads);
    rowStatistics<D><<<grid, threads, 0, stream>>>(sizes, buffers, operands);
    return cudaGetLastError();
  });
}

} // namespace

cudaError_t qwen::cuda::launch(const AttentionGradArgs &args,
                               const LaunchContext &context) {
  AttentionSizes sizes(args);
  Carver carver(context.workspace.data());
  AttentionBuffers buffers(carver, sizes, true);
  UncoveredOutputs uncovered = {
      {uncoveredRows(args.dq), uncoveredRows(args.dk), uncoveredRows(args.dv)},
      3};
  cudaError_t error =
      enqueueAttentionSchedule(sizes, buffers, args.cuSeqlens.as<int>(), true,
                               uncovered, context.stream);
  if (error == cudaSuccess)
    error = enqueueStatistics(args, sizes, buffers, context.stream);
  for (int pass = 0; pass < sizes.passes; ++pass) {
    if (error == cudaSuccess)
      error = enqueueKeyGradients(args, sizes, buffers, pass, context.stream);
    if (error == cudaSuccess)
      error = enqueueQueryGradients(args, sizes, buffers, pass, context.stream);
  }
  return error;
}
