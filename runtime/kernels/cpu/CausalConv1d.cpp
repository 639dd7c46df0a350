//===- CausalConv1d.cpp - Causal depthwise convolution, SiLU ---*- C++ -*-===//
//
// kernel.causal_conv1d.
//
//===----------------------------------------------------------------------===//

#include "ConvTaps.h"
#include "Documents.h"
#include "VectorMath.h"
#include "runtime/kernels/cpu/Kernels.h"

using namespace qwen;
using namespace qwen::cpu;

template <typename S>
static void convolve(const CausalConv1dArgs &args, const Documents &documents,
                     const ConvTaps<S> &taps, int64_t begin, int64_t end) {
  using T = Wide<S>;
  T sums[convChannelBlock];
  for (int64_t t = begin; t < end;) {
    int64_t document = documents.find(t);
    int64_t start = documents.begin(document);
    int64_t stop = std::min(end, documents.end(document));
    for (; t < stop; ++t) {
      taps.preActivation(args.x, t, start, sums);
      S *y = args.y.as<S>() + t * args.y.strides[0] + taps.first;
      for (int64_t c = 0; c < taps.channels; ++c)
        y[c] = narrow<S>(sums[c] * sigmoid(sums[c]));
    }
  }
}

void qwen::cpu::launch(const CausalConv1dArgs &args, const LaunchContext &) {
  int64_t tokens = args.x.dim(0);
  Documents documents(args.cuSeqlens, tokens);
  int64_t total = documents.total();
  int64_t channelBlocks = ceilDiv(args.x.dim(1), convChannelBlock);
  int64_t items = ceilDiv(total, convTokenBlock) * channelBlocks;
  withStorage(args.x.dtype, [&](auto tag) {
    using S = decltype(tag);
    parallelFor(items, items, [&](int64_t item, int64_t) {
      ConvTaps<S> taps(args.weight, item % channelBlocks * convChannelBlock);
      int64_t begin = item / channelBlocks * convTokenBlock;
      convolve(args, documents, taps, begin,
               std::min(total, begin + convTokenBlock));
    });
  });
  zeroTokensFrom(args.y, total);
}
