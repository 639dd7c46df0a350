//===- LinearCrossEntropyGrad.cpp - Loss and its gradients -----*- C++ -*-===//
//
// kernel.linear_cross_entropy_grad. The gradient of the rows is one chain of
// additions in token order, whatever the blocks are.
//
//===----------------------------------------------------------------------===//

#include "LossBlock.h"
#include "runtime/kernels/cpu/Kernels.h"

#include <cmath>
#include <limits>

using namespace qwen;
using namespace qwen::cpu;

namespace {

template <typename S> class LossGradient {
public:
  using T = Wide<S>;
  using Blocks = LossBlocks<S, LinearCrossEntropyGradArgs>;

  LossGradient(const LinearCrossEntropyGradArgs &args, std::byte *workspace)
      : args(args), block(args, workspace, true) {}

  void run() {
    bool accumulate = args.accumulate;
    while (block.next([&](int64_t t) { ignore(t); })) {
      block.formLogits();
      block.forEachRow([&](int64_t i) { logitGradients(i); });
      inputGradients();
      weightGradients(accumulate);
      accumulate = true;
    }
    if (!accumulate)
      zeroWeightGradients();
  }

private:
  void ignore(int64_t t) {
    args.nll.template as<T>()[t] = 0;
    S *dx = args.dx.template as<S>() + t * args.dx.strides[0];
    std::fill(dx, dx + block.hidden, S{});
  }

  /// Logits become (softmax - target) times the gradient of the loss.
  void logitGradients(int64_t i) {
    T total = block.lossOfRow(i);
    // Whoever withholds an update looks at the gradients alone: an infinite
    // loss must not have finite ones.
    bool finite = std::isfinite(args.nll.template as<T>()[block.token(i)]);
    T gradient = finite ? args.dnll.template as<T>()[block.token(i)]
                        : std::numeric_limits<T>::quiet_NaN();
    T factor = gradient / total;
    T *row = block.logits(i);
    for (int64_t j = 0; j < block.vocabulary; ++j)
      row[j] *= factor;
    row[block.label(i)] -= gradient;
  }

  MatrixView logits(bool transposed) const {
    return {block.scratch.logits, Blocks::wideType, padded(block.vocabulary),
            transposed};
  }

  void inputGradients() {
    int64_t hp = padded(block.hidden);
    multiply<T>(
        {.m = block.rows,
         .n = block.hidden,
         .k = block.vocabulary,
         .a = logits(false),
         .b = {args.weight.data, args.weight.dtype, rowStride(args.weight)},
         .c = block.scratch.dx,
         .dtype = Blocks::wideType,
         .stride = hp},
        block.scratch.gemm);
    for (int64_t i = 0; i < block.rows; ++i)
      storeRow(args.dx.template as<S>() + block.token(i) * args.dx.strides[0],
               block.scratch.dx + i * hp, block.hidden);
  }

  void weightGradients(bool accumulate) {
    MatrixView start;
    if (accumulate)
      start = {args.dweight.data, args.dweight.dtype, rowStride(args.dweight)};
    multiply<T>({.m = block.vocabulary,
                 .n = block.hidden,
                 .k = block.rows,
                 .a = logits(true),
                 .b = {block.scratch.x, Blocks::wideType, padded(block.hidden)},
                 .c = args.dweight.data,
                 .dtype = args.dweight.dtype,
                 .stride = rowStride(args.dweight),
                 .start = start},
                block.scratch.gemm);
  }

  void zeroWeightGradients() {
    int64_t stride = rowStride(args.dweight);
    parallelBlocks(block.vocabulary, 256, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T *to = args.dweight.template as<T>() + row * stride;
        std::fill(to, to + block.hidden, T(0));
      }
    });
  }

  const LinearCrossEntropyGradArgs &args;
  Blocks block;
};

} // namespace

void qwen::cpu::launch(const LinearCrossEntropyGradArgs &args,
                       const LaunchContext &context) {
  withStorage(args.x.dtype, [&](auto tag) {
    LossGradient<decltype(tag)>(args, context.workspace.data()).run();
  });
}
