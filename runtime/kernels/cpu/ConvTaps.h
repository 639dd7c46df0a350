//===- ConvTaps.h - One channel block of a short convolution ---*- C++ -*-===//
//
// What the convolution and its gradient share: taps of a block of channels and
// the value before the activation.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CPU_CONVTAPS_H
#define QWEN_RUNTIME_KERNELS_CPU_CONVTAPS_H

#include "Storage.h"

#include <algorithm>

namespace qwen::cpu {

/// Channels that are worked on together.
inline constexpr int64_t convChannelBlock = 128;
inline constexpr int64_t maxConvWidth = 8;

template <typename S> class ConvTaps {
public:
  using T = Wide<S>;

  ConvTaps(const ConstBuffer &weight, int64_t firstChannel)
      : width(weight.dim(2)), first(firstChannel),
        channels(std::min(convChannelBlock, weight.dim(0) - firstChannel)) {
    const S *from = weight.as<S>() + firstChannel * width;
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t i = 0; i < width; ++i)
        taps[i][c] = widen(from[c * width + i]);
  }

  /// out[c] = sum of taps over the tokens of the document up to `token`.
  void preActivation(const ConstBuffer &x, int64_t token, int64_t documentBegin,
                     T *out) const {
    std::fill(out, out + channels, T(0));
    for (int64_t i = firstTap(token, documentBegin); i < width; ++i) {
      const S *row = input(x, token, i);
      for (int64_t c = 0; c < channels; ++c)
        out[c] += taps[i][c] * widen(row[c]);
    }
  }

  /// Tap i of `token` reads this row of x (this block's channels).
  const S *input(const ConstBuffer &x, int64_t token, int64_t i) const {
    return x.as<S>() + (token - width + 1 + i) * x.strides[0] + first;
  }
  /// Taps before this one would reach over the document's start.
  int64_t firstTap(int64_t token, int64_t documentBegin) const {
    return std::max<int64_t>(0, width - 1 - (token - documentBegin));
  }

  int64_t width, first, channels;
  T taps[maxConvWidth][convChannelBlock];
};

} // namespace qwen::cpu

#endif // QWEN_RUNTIME_KERNELS_CPU_CONVTAPS_H
