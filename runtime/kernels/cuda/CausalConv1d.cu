//===- CausalConv1d.cu - Causal depthwise convolution, SiLU ----*- CUDA -*-===//
//
// kernel.causal_conv1d. A thread owns four channels and walks down a block of
// tokens with the last three inputs in registers; where a document starts it
// forgets them, so blocks need not know documents. The next tokens are loaded
// while the last ones are worked on.
//
//===----------------------------------------------------------------------===//

#include "ConvRows.cuh"
#include "runtime/kernels/cuda/Kernels.h"

using namespace qwen;
using namespace qwen::cuda;

namespace {

constexpr int threads = 128;
constexpr int lanes = 4; ///< channels of a thread
constexpr int tokensOfBlock = 64;
constexpr int batch = 8; ///< tokens whose loads are in flight together
constexpr int history = convWidth - 1;

template <typename S> struct Operands {
  const S *x, *weight;
  S *y;
  int64_t xStride, yStride;
  int channels;
  Boundaries boundaries;
};

/// Convolves tokens [first, first + batch) and writes them. Starts are looked
/// at where `HasStarts`; without branches the tokens overlap.
template <bool HasStarts, typename S>
QWEN_DEVICE void convolveBatch(const Operands<S> &a, const Taps<S, lanes> &taps,
                               float (&past)[history][lanes],
                               const Vector<S, lanes> (&rows)[batch],
                               uint32_t isStart, int first, int channel) {
#pragma unroll
  for (int k = 0; k < batch; ++k) {
    if (HasStarts && isStart >> k & 1)
#pragma unroll
      for (int i = 0; i < history; ++i)
#pragma unroll
        for (int c = 0; c < lanes; ++c)
          past[i][c] = 0;
    float y[lanes];
#pragma unroll
    for (int c = 0; c < lanes; ++c) {
      float x = rows[k][c];
      float z = taps.tap[0][c] * past[0][c];
      z = fmaf(taps.tap[1][c], past[1][c], z);
      z = fmaf(taps.tap[2][c], past[2][c], z);
      z = fmaf(taps.tap[3][c], x, z);
      y[c] = z * sigmoid<S>(z);
      past[0][c] = past[1][c];
      past[1][c] = past[2][c];
      past[2][c] = x;
    }
    if (first + k < a.boundaries.tokens)
      Vector<S, lanes>::rounded(y).store(a.y + (first + k) * a.yStride +
                                         channel);
  }
}

template <typename S>
__global__ void __launch_bounds__(threads, sizeof(S) == 2 ? 6 : 3)
    convolve(Operands<S> a) {
  using Row = Vector<S, lanes>;
  __shared__ StartBits<3> starts;
  int begin = blockIdx.y * tokensOfBlock, origin = begin - history;
  int channel = (blockIdx.x * threads + threadIdx.x) * lanes;
  // Threads behind the last channel only help to find starts.
  int total = channel < a.channels ? a.boundaries.total() : 0;

  // Rows outside all documents count as zeros, whatever they hold.
  auto load = [&](int t) {
    return t >= 0 && t < total ? Row::load(a.x + t * a.xStride + channel)
                               : Row{};
  };
  auto loadBatch = [&](Row(&rows)[batch], int first) {
#pragma unroll
    for (int k = 0; k < batch; ++k)
      rows[k] = load(first + k);
  };
  Row before[history], next[batch];
#pragma unroll
  for (int i = 0; i < history; ++i)
    before[i] = load(origin + i);
  loadBatch(next, begin);
  starts.fill(a.boundaries, origin);
  if (channel >= a.channels)
    return;
  Taps<S, lanes> taps(a.weight + int64_t(channel) * convWidth);
  float past[history][lanes];
#pragma unroll
  for (int i = 0; i < history; ++i) {
    // A start at origin + j, j > i, hides the row.
    bool hidden = starts.word[0] & ((1u << history) - (2u << i));
#pragma unroll
    for (int c = 0; c < lanes; ++c)
      past[i][c] = hidden ? 0.0f : before[i][c];
  }
#pragma unroll 1
  for (int first = begin; first < begin + tokensOfBlock; first += batch) {
    Row rows[batch];
#pragma unroll
    for (int k = 0; k < batch; ++k)
      rows[k] = next[k];
    if (first + batch < begin + tokensOfBlock)
      loadBatch(next, first + batch);
    uint32_t isStart = starts.from(first - origin);
    if (isStart & ((1u << batch) - 1))
      convolveBatch<true>(a, taps, past, rows, isStart, first, channel);
    else
      convolveBatch<false>(a, taps, past, rows, isStart, first, channel);
  }
}

template <typename S>
cudaError_t run(const CausalConv1dArgs &args, cudaStream_t stream) {
  int64_t tokens = args.x.dim(0), channels = args.x.dim(1);
  Operands<S> operands{args.x.as<S>(),
                       args.weight.as<S>(),
                       args.y.as<S>(),
                       args.x.strides[0],
                       args.y.strides[0],
                       int(channels),
                       Boundaries(args.cuSeqlens, tokens)};
  dim3 grid(ceilDiv(channels, threads * lanes), ceilDiv(tokens, tokensOfBlock));
  convolve<S><<<grid, threads, 0, stream>>>(operands);
  return cudaGetLastError();
}

} // namespace

cudaError_t qwen::cuda::launch(const CausalConv1dArgs &args,
                               const LaunchContext &context) {
  return withStorage(args.x.dtype, [&](auto tag) {
    return run<decltype(tag)>(args, context.stream);
  });
}
