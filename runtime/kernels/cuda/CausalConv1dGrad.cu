//===- CausalConv1dGrad.cu - Gradients of the convolution ------*- CUDA -*-===//
//
// kernel.causal_conv1d_grad. A thread owns four channels of 64 tokens, walks
// down them with the last three inputs and the three unfinished input gradients
// in registers, and recomputes the value before the activation. Four such
// groups of tokens add their tap gradients in order; a second kernel adds the
// blocks' sums in order. Both x and dy are read once (and three rows more for
// each 64).
//
//===----------------------------------------------------------------------===//

#include "ConvRows.cuh"
#include "runtime/kernels/cuda/Kernels.h"

using namespace qwen;
using namespace qwen::cuda;

namespace {

constexpr int lanes = 4;    ///< channels of a thread
constexpr int columns = 64; ///< threads side by side
constexpr int groups = 4;   ///< groups of tokens of a block
constexpr int threads = columns * groups;
constexpr int tokensOfGroup = int(convTokenBlock) / groups;
constexpr int batch = 4; ///< tokens whose loads are in flight together
constexpr int history = convWidth - 1;
constexpr int tapsOfThread = lanes * convWidth;

template <typename S> struct Operands {
  const S *x, *weight, *dy;
  S *dx;
  int64_t xStride, dyStride, dxStride;
  int channels;
  Boundaries boundaries;
  float *partials;
};

/// What a thread carries from token to token.
template <typename S> struct Walk {
  Taps<S, lanes> taps;
  float past[history][lanes];           ///< x of t - 3, t - 2, t - 1
  float open[history][lanes];           ///< unfinished dx of the same tokens
  float tapGradients[convWidth][lanes]; ///< sums over the thread's tokens

  QWEN_DEVICE explicit Walk(const S *weight)
      : taps(weight), past{}, open{}, tapGradients{} {}

  QWEN_DEVICE void forget() {
#pragma unroll
    for (int i = 0; i < history; ++i)
#pragma unroll
      for (int c = 0; c < lanes; ++c)
        past[i][c] = 0;
  }

  /// Adds token t and writes dx of t - 3 to `finished`. Bits 0, 1, 2 of
  /// `isStart` say whether a document starts at t - 2, t - 1, t; they are
  /// looked at where `HasStarts`.
  template <bool AddTaps, bool HasStarts>
  QWEN_DEVICE void step(const Vector<S, lanes> &xRow,
                        const Vector<S, lanes> &dyRow, uint32_t isStart,
                        float (&finished)[lanes]) {
    if (HasStarts && isStart & 4)
      forget();
    float dz[lanes];
#pragma unroll
    for (int c = 0; c < lanes; ++c) {
      float x = xRow[c];
      float z = taps.tap[0][c] * past[0][c];
      z = fmaf(taps.tap[1][c], past[1][c], z);
      z = fmaf(taps.tap[2][c], past[2][c], z);
      z = fmaf(taps.tap[3][c], x, z);
      float gate = sigmoid<S>(z);
      dz[c] = dyRow[c] * (gate * fmaf(z, 1.0f - gate, 1.0f));
      if constexpr (AddTaps) {
        tapGradients[0][c] = fmaf(dz[c], past[0][c], tapGradients[0][c]);
        tapGradients[1][c] = fmaf(dz[c], past[1][c], tapGradients[1][c]);
        tapGradients[2][c] = fmaf(dz[c], past[2][c], tapGradients[2][c]);
        tapGradients[3][c] = fmaf(dz[c], x, tapGradients[3][c]);
      }
      past[0][c] = past[1][c];
      past[1][c] = past[2][c];
      past[2][c] = x;
    }
    // Earlier tokens of the same document get their share.
    bool reach1 = !HasStarts || !(isStart & 4);
    bool reach2 = !HasStarts || !(isStart & 6);
    bool reach3 = !HasStarts || !(isStart & 7);
    if (reach1)
      addShare(2, 2, dz);
    if (reach2)
      addShare(1, 1, dz);
    if (reach3)
      addShare(0, 0, dz);
#pragma unroll
    for (int c = 0; c < lanes; ++c) {
      finished[c] = open[0][c];
      open[0][c] = open[1][c];
      open[1][c] = open[2][c];
      open[2][c] = taps.tap[3][c] * dz[c];
    }
  }

private:
  QWEN_DEVICE void addShare(int token, int tap, const float (&dz)[lanes]) {
#pragma unroll
    for (int c = 0; c < lanes; ++c)
      open[token][c] = fmaf(taps.tap[tap][c], dz[c], open[token][c]);
  }
};

/// Adds the groups' tap gradients in order and writes the block's row of
/// partials.
QWEN_DEVICE void storePartials(float (&sums)[groups][columns * tapsOfThread],
                               const float (&mine)[convWidth][lanes],
                               int channels, float *partials) {
  int column = threadIdx.x % columns, group = threadIdx.x / columns;
#pragma unroll
  for (int c = 0; c < lanes; ++c)
    reinterpret_cast<float4 *>(sums[group])[column * lanes + c] = {
        mine[0][c], mine[1][c], mine[2][c], mine[3][c]};
  __syncthreads();
  // Each thread now owns the four taps of one channel.
  int channel = blockIdx.x * columns * lanes + threadIdx.x;
  if (channel >= channels)
    return;
  float4 total = reinterpret_cast<const float4 *>(sums[0])[threadIdx.x];
#pragma unroll
  for (int g = 1; g < groups; ++g) {
    float4 next = reinterpret_cast<const float4 *>(sums[g])[threadIdx.x];
    total = {total.x + next.x, total.y + next.y, total.z + next.z,
             total.w + next.w};
  }
  reinterpret_cast<float4 *>(
      partials)[blockIdx.y * int64_t(channels) + channel] = total;
}

/// Adds a batch of tokens from `first` on and stores the rows of dx that are
/// finished and belong to the thread, whose tokens start at `begin`.
template <bool AddTaps, bool HasStarts, int Count, typename S>
QWEN_DEVICE void walkBatch(const Operands<S> &a, Walk<S> &walk,
                           const Vector<S, lanes> (&x)[Count],
                           const Vector<S, lanes> (&dy)[Count],
                           uint32_t isStart, int first, int begin, int channel,
                           int tokens) {
#pragma unroll
  for (int k = 0; k < Count; ++k) {
    float dx[lanes];
    walk.template step<AddTaps, HasStarts>(x[k], dy[k], isStart >> k, dx);
    int t = first + k - history;
    if (t >= begin && t < tokens)
      Vector<S, lanes>::rounded(dx).store(a.dx + t * a.dxStride + channel);
  }
}

template <typename S>
__global__ void __launch_bounds__(threads, sizeof(S) == 2 ? 2 : 1)
    gradients(Operands<S> a) {
  using Row = Vector<S, lanes>;
  __shared__ StartBits<9> starts;
  __shared__ __align__(16) float sums[groups][columns * tapsOfThread];
  static_assert(tapsOfThread * columns == threads * convWidth);
  int origin = blockIdx.y * int(convTokenBlock) - history;
  int begin = origin + history + threadIdx.x / columns * tokensOfGroup;
  int end = begin + tokensOfGroup;
  int channel = (blockIdx.x * columns + threadIdx.x % columns) * lanes;
  // Threads behind the last channel take part in the sums with zeros.
  bool active = channel < a.channels;
  int total = active ? a.boundaries.total() : 0;
  int tokens = active ? a.boundaries.tokens : 0;

  // Rows outside all documents count as zeros, whatever they hold.
  auto load = [&](const S *rows, int64_t stride, int t) {
    return t >= 0 && t < total ? Row::load(rows + t * stride + channel) : Row{};
  };
  auto loadBatch = [&](auto &x, auto &dy, int first) {
#pragma unroll
    for (int k = 0; k < int(sizeof(x) / sizeof(Row)); ++k) {
      x[k] = load(a.x, a.xStride, first + k);
      dy[k] = load(a.dy, a.dyStride, first + k);
    }
  };
  Row before[history], nextX[batch], nextDy[batch];
#pragma unroll
  for (int i = 0; i < history; ++i)
    before[i] = load(a.x, a.xStride, begin - history + i);
  loadBatch(nextX, nextDy, begin);
  starts.fill(a.boundaries, origin);
  Walk<S> walk(a.weight + int64_t(active ? channel : 0) * convWidth);
  uint32_t hides = starts.from(begin - history - origin);
#pragma unroll
  for (int i = 0; i < history; ++i) {
    bool hidden = hides & ((1u << history) - (2u << i));
#pragma unroll
    for (int c = 0; c < lanes; ++c)
      walk.past[i][c] = hidden ? 0.0f : before[i][c];
  }
#pragma unroll 1
  for (int first = begin; first < end; first += batch) {
    Row x[batch], dy[batch];
#pragma unroll
    for (int k = 0; k < batch; ++k) {
      x[k] = nextX[k];
      dy[k] = nextDy[k];
    }
    // The last batch is followed by the next group's first tokens.
    loadBatch(nextX, nextDy, first + batch);
    uint32_t isStart = starts.from(first - (history - 1) - origin);
    if (isStart & ((1u << (batch + history - 1)) - 1))
      walkBatch<true, true>(a, walk, x, dy, isStart, first, begin, channel,
                            tokens);
    else
      walkBatch<true, false>(a, walk, x, dy, isStart, first, begin, channel,
                             tokens);
  }
  // Those finish this group's last rows.
  Row x[history], dy[history];
#pragma unroll
  for (int k = 0; k < history; ++k) {
    x[k] = nextX[k];
    dy[k] = nextDy[k];
  }
  static_assert(history <= batch);
  walkBatch<false, true>(a, walk, x, dy,
                         starts.from(end - (history - 1) - origin), end, begin,
                         channel, tokens);
  storePartials(sums, walk.tapGradients, a.channels, a.partials);
}

/// dweight = (dweight +) the blocks' sums, one thread a channel.
__global__ void __launch_bounds__(threads)
    addPartials(const float4 *partials, float4 *dweight, int channels,
                int blocks, bool accumulate) {
  int channel = blockIdx.x * threads + threadIdx.x;
  if (channel >= channels)
    return;
  float4 sum = {};
#pragma unroll 8
  for (int block = 0; block < blocks; ++block) {
    float4 next = partials[int64_t(block) * channels + channel];
    sum = {sum.x + next.x, sum.y + next.y, sum.z + next.z, sum.w + next.w};
  }
  if (accumulate) {
    float4 old = dweight[channel];
    sum = {old.x + sum.x, old.y + sum.y, old.z + sum.z, old.w + sum.w};
  }
  dweight[channel] = sum;
}

template <typename S>
cudaError_t run(const CausalConv1dGradArgs &args,
                const LaunchContext &context) {
  int64_t tokens = args.x.dim(0), channels = args.x.dim(1);
  Carver carver(context.workspace.data());
  TapPartials scratch(carver, args);
  Operands<S> operands{args.x.as<S>(),
                       args.weight.as<S>(),
                       args.dy.as<S>(),
                       args.dx.as<S>(),
                       args.x.strides[0],
                       args.dy.strides[0],
                       args.dx.strides[0],
                       int(channels),
                       Boundaries(args.cuSeqlens, tokens),
                       scratch.partials};
  dim3 grid(ceilDiv(channels, columns * lanes), scratch.blocks);
  gradients<S><<<grid, threads, 0, context.stream>>>(operands);
  if (cudaError_t error = cudaGetLastError())
    return error;
  addPartials<<<ceilDiv(channels, threads), threads, 0, context.stream>>>(
      reinterpret_cast<const float4 *>(scratch.partials),
      args.dweight.as<float4>(), int(channels), int(scratch.blocks),
      args.accumulate);
  return cudaGetLastError();
}

} // namespace

cudaError_t qwen::cuda::launch(const CausalConv1dGradArgs &args,
                               const LaunchContext &context) {
  return withStorage(args.x.dtype, [&](auto tag) {
    return run<decltype(tag)>(args, context);
  });
}
