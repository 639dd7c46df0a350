//===- LossBlock.h - Logits of a block of supervised tokens ----*- C++ -*-===//
//
// What the loss and its gradient share: picking supervised tokens, their logits
// and the loss of a row. Unsupervised tokens take part in no product: a row of
// a product does not depend on its place, and a zero row adds nothing to a sum,
// so that leaving them out changes no bit.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CPU_LOSSBLOCK_H
#define QWEN_RUNTIME_KERNELS_CPU_LOSSBLOCK_H

#include "MatrixProduct.h"
#include "Parallel.h"
#include "Storage.h"
#include "VectorMath.h"

#include <cmath>
#include <limits>

namespace qwen::cpu {

/// One pass over the tokens in blocks; Args is either kernel's.
template <typename S, typename Args> class LossBlocks {
public:
  using T = Wide<S>;

  LossBlocks(const Args &args, std::byte *workspace, bool gradient)
      : args(args), carver(workspace), hidden(args.x.dim(1)),
        vocabulary(args.weight.dim(0)),
        scratch(carver, hidden, vocabulary, gradient) {}

  /// Takes the next supervised tokens; calls ignored(token) for those between
  /// them. False where no token is left.
  template <typename F> bool next(F &&ignored) {
    rows = 0;
    int64_t limit = lossTokenBlock(vocabulary);
    for (; position < args.x.dim(0) && rows < limit; ++position) {
      if (isSupervised(position))
        scratch.tokens[rows++] = static_cast<int32_t>(position);
      else
        ignored(position);
    }
    return rows > 0;
  }

  /// Loads the hidden states and forms the logits; padding columns become
  /// minus infinity.
  void formLogits() {
    int64_t hp = padded(hidden);
    parallelBlocks(rows, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        loadRow(scratch.x + i * hp,
                args.x.template as<S>() + token(i) * args.x.strides[0], hidden,
                hp);
    });
    multiply<T>({.m = rows,
                 .n = vocabulary,
                 .k = hidden,
                 .a = {scratch.x, wideType, hp},
                 .b = {args.weight.data, args.weight.dtype,
                       rowStride(args.weight), true},
                 .c = scratch.logits,
                 .dtype = wideType,
                 .stride = padded(vocabulary)},
                scratch.gemm);
    for (int64_t i = 0; i < rows; ++i)
      std::fill(logits(i) + vocabulary, logits(i) + padded(vocabulary),
                -std::numeric_limits<T>::infinity());
  }

  /// Writes the loss of row i and turns its logits into exponentials, whose sum
  /// it returns.
  T lossOfRow(int64_t i) {
    int64_t width = padded(vocabulary);
    T *row = logits(i);
    T target = row[label(i)], largest = maximum(row, width);
    for (int64_t j = 0; j < width; ++j)
      row[j] = exponential(row[j] - largest);
    T total = sum(row, width);
    args.nll.template as<T>()[token(i)] = std::log(total) + (largest - target);
    return total;
  }

  /// Runs body(i) for each row; short rows are worked on together.
  template <typename F> void forEachRow(F &&body) const {
    int64_t together = std::max<int64_t>(1, 16384 / vocabulary);
    parallelBlocks(rows, together, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        body(i);
    });
  }

  int64_t token(int64_t i) const { return scratch.tokens[i]; }
  int32_t label(int64_t i) const {
    return args.labels.template as<int32_t>()[token(i)];
  }
  T *logits(int64_t i) const { return scratch.logits + i * padded(vocabulary); }

private:
  /// A label outside the vocabulary is treated as ignored: data are verified
  /// when they are loaded, this only keeps a bad one inside memory.
  bool isSupervised(int64_t t) const {
    int64_t label = args.labels.template as<int32_t>()[t];
    return label != args.ignoreIndex && label >= 0 && label < vocabulary;
  }

  const Args &args;
  Carver carver;
  int64_t position = 0;

public:
  static constexpr DType wideType =
      std::is_same_v<S, double> ? DType::F64 : DType::F32;
  const int64_t hidden, vocabulary;
  LossScratch<T> scratch;
  int64_t rows = 0; ///< supervised tokens of the current block
};

} // namespace qwen::cpu

#endif // QWEN_RUNTIME_KERNELS_CPU_LOSSBLOCK_H
