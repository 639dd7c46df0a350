//===- EmbeddingGrad.cpp - Gradient of a table by token id -----*- C++ -*-===//
//
// kernel.embedding_grad. A piece of work owns some columns of the table and
// walks all tokens in order, so that rows of one id are added in token order.
//
//===----------------------------------------------------------------------===//

#include "Parallel.h"
#include "Storage.h"
#include "runtime/kernels/cpu/Kernels.h"

#include <algorithm>

using namespace qwen;
using namespace qwen::cpu;

template <typename S> static void scatter(const EmbeddingGradArgs &args) {
  using T = Wide<S>;
  int64_t rows = args.dtable.dim(0), tokens = args.ids.dim(0);
  const int32_t *ids = args.ids.as<int32_t>();
  T *table = args.dtable.as<T>();
  int64_t stride = args.dtable.strides[0];
  parallelBlocks(args.dout.dim(1), 64, [&](int64_t begin, int64_t end) {
    if (!args.accumulate)
      for (int64_t row = 0; row < rows; ++row)
        std::fill(table + row * stride + begin, table + row * stride + end,
                  T(0));
    for (int64_t t = 0; t < tokens; ++t) {
      if (ids[t] < 0 || ids[t] >= rows)
        continue;
      const S *from = args.dout.as<S>() + t * args.dout.strides[0];
      T *to = table + ids[t] * stride;
      for (int64_t i = begin; i < end; ++i)
        to[i] += widen(from[i]);
    }
  });
}

void qwen::cpu::launch(const EmbeddingGradArgs &args, const LaunchContext &) {
  withStorage(args.dout.dtype, [&](auto tag) { scatter<decltype(tag)>(args); });
}
