//===- CausalConv1dGrad.cpp - Gradients of the convolution -----*- C++ -*-===//
//
// kernel.causal_conv1d_grad. Walks a block of tokens backwards with the
// gradients before the activation of the next tokens in a ring; tokens behind
// the block are recomputed, so that blocks are independent.
//
//===----------------------------------------------------------------------===//

#include "ConvTaps.h"
#include "Documents.h"
#include "VectorMath.h"
#include "runtime/kernels/cpu/Kernels.h"

#include <cstring>

using namespace qwen;
using namespace qwen::cpu;

namespace {

/// One block of tokens and channels.
template <typename S> class ConvGradBlock {
public:
  using T = Wide<S>;

  ConvGradBlock(const CausalConv1dGradArgs &args, int64_t firstChannel)
      : args(args), taps(args.weight, firstChannel) {}

  /// Writes dx of tokens [begin, end) and adds their tap gradients.
  void run(const Documents &documents, int64_t begin, int64_t end) {
    int64_t last = end;
    while (last > begin) {
      int64_t document = documents.find(last - 1);
      int64_t start = documents.begin(document);
      // Later tokens of the document that still read tokens of this block.
      int64_t halo = std::min(documents.end(document), last + taps.width - 1);
      std::memset(ring, 0, sizeof(ring));
      for (int64_t t = halo - 1; t >= last; --t)
        activationGradient(t, start);
      int64_t first = std::max(begin, start);
      for (int64_t t = last - 1; t >= first; --t) {
        activationGradient(t, start);
        addTapGradients(t, start);
        inputGradient(t);
      }
      last = first;
    }
  }

  /// partials[c, i] of this block's channels.
  void store(T *partials) const {
    for (int64_t c = 0; c < taps.channels; ++c)
      for (int64_t i = 0; i < taps.width; ++i)
        partials[(taps.first + c) * taps.width + i] = tapGradients[i][c];
  }

private:
  T *slot(int64_t token) { return ring[token % maxConvWidth]; }

  void activationGradient(int64_t token, int64_t start) {
    T *out = slot(token);
    const S *dy =
        args.dy.template as<S>() + token * args.dy.strides[0] + taps.first;
    taps.preActivation(args.x, token, start, out);
    for (int64_t c = 0; c < taps.channels; ++c) {
      T gate = sigmoid(out[c]);
      out[c] = widen(dy[c]) * (gate * (1 + out[c] * (1 - gate)));
    }
  }

  void addTapGradients(int64_t token, int64_t start) {
    const T *gradient = slot(token);
    for (int64_t i = taps.firstTap(token, start); i < taps.width; ++i) {
      const S *row = taps.input(args.x, token, i);
      for (int64_t c = 0; c < taps.channels; ++c)
        tapGradients[i][c] += gradient[c] * widen(row[c]);
    }
  }

  void inputGradient(int64_t token) {
    T sums[convChannelBlock] = {};
    for (int64_t i = 0; i < taps.width; ++i) {
      const T *gradient = slot(token + taps.width - 1 - i);
      for (int64_t c = 0; c < taps.channels; ++c)
        sums[c] += taps.taps[i][c] * gradient[c];
    }
    storeRow(args.dx.template as<S>() + token * args.dx.strides[0] + taps.first,
             sums, taps.channels);
  }

  const CausalConv1dGradArgs &args;
  ConvTaps<S> taps;
  T ring[maxConvWidth][convChannelBlock];
  T tapGradients[maxConvWidth][convChannelBlock] = {};
};

} // namespace

template <typename S>
static void run(const CausalConv1dGradArgs &args,
                const LaunchContext &context) {
  using T = Wide<S>;
  int64_t tokens = args.x.dim(0), channels = args.x.dim(1);
  int64_t width = args.weight.dim(2);
  Documents documents(args.cuSeqlens, tokens);
  int64_t total = documents.total();
  Carver carver(context.workspace.data());
  ConvGradScratch<T> scratch(carver, tokens, channels, width);

  int64_t channelBlocks = ceilDiv(channels, convChannelBlock);
  int64_t tokenBlocks = ceilDiv(total, convTokenBlock);
  int64_t items = tokenBlocks * channelBlocks;
  parallelFor(items, items, [&](int64_t item, int64_t) {
    ConvGradBlock<S> block(args, item % channelBlocks * convChannelBlock);
    int64_t tokenBlock = item / channelBlocks;
    int64_t begin = tokenBlock * convTokenBlock;
    block.run(documents, begin, std::min(total, begin + convTokenBlock));
    block.store(scratch.partials + tokenBlock * channels * width);
  });

  T *dweight = args.dweight.template as<T>();
  parallelBlocks(channels * width, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T sum = 0;
      for (int64_t block = 0; block < tokenBlocks; ++block)
        sum += scratch.partials[block * channels * width + i];
      dweight[i] = args.accumulate ? dweight[i] + sum : sum;
    }
  });
  zeroTokensFrom(args.dx, total);
}

void qwen::cpu::launch(const CausalConv1dGradArgs &args,
                       const LaunchContext &context) {
  withStorage(args.x.dtype,
              [&](auto tag) { run<decltype(tag)>(args, context); });
}
