//===- EmbeddingShard.cpp - A rank's part of rows by token id --*- C++ -*-===//
//
// kernel.embedding_shard. Rows may begin or end outside of the shard: its
// limits know nothing of the table.
//
//===----------------------------------------------------------------------===//

#include "Parallel.h"
#include "Storage.h"
#include "runtime/kernels/cpu/Kernels.h"

#include <algorithm>

using namespace qwen;
using namespace qwen::cpu;

template <typename S> static void lookUp(const EmbeddingShardArgs &args) {
  int64_t width = args.out.dim(1), held = args.shard.elements();
  const int32_t *ids = args.ids.as<int32_t>();
  parallelBlocks(args.ids.dim(0), 64, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      auto *out = args.out.as<Wide<S>>() + t * args.out.strides[0];
      std::fill(out, out + width, Wide<S>(0));
      if (ids[t] < 0 || ids[t] >= args.rows)
        continue;
      int64_t first = args.begin + ids[t] * width;
      int64_t last = std::min(held, first + width);
      for (int64_t i = std::max<int64_t>(first, 0); i < last; ++i)
        out[i - first] = widen(args.shard.as<S>()[i]);
    }
  });
}

void qwen::cpu::launch(const EmbeddingShardArgs &args, const LaunchContext &) {
  withStorage(args.shard.dtype, [&](auto tag) { lookUp<decltype(tag)>(args); });
}
