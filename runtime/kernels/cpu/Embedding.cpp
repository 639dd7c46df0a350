//===- Embedding.cpp - Rows of a table by token id -------------*- C++ -*-===//
//
// kernel.embedding. An id outside the table gives a row of zeros: data are
// verified when they are loaded, this only keeps a bad id inside memory.
//
//===----------------------------------------------------------------------===//

#include "Parallel.h"
#include "Storage.h"
#include "runtime/kernels/cpu/Kernels.h"

#include <algorithm>

using namespace qwen;
using namespace qwen::cpu;

template <typename S> static void gather(const EmbeddingArgs &args) {
  int64_t width = args.table.dim(1), rows = args.table.dim(0);
  const int32_t *ids = args.ids.as<int32_t>();
  parallelBlocks(args.ids.dim(0), 64, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      S *out = args.out.as<S>() + t * args.out.strides[0];
      if (ids[t] < 0 || ids[t] >= rows) {
        std::fill(out, out + width, S{});
        continue;
      }
      const S *row = args.table.as<S>() + ids[t] * args.table.strides[0];
      std::copy(row, row + width, out);
    }
  });
}

void qwen::cpu::launch(const EmbeddingArgs &args, const LaunchContext &) {
  withStorage(args.table.dtype, [&](auto tag) { gather<decltype(tag)>(args); });
}
