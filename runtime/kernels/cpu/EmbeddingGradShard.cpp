//===- EmbeddingGradShard.cpp - A rank's part of a table's gradient -------===//
//
// kernel.embedding_grad_shard. Tokens are sorted by (id, token); one thread
// adds the rows of an id, so that a sum is rounded to the shard's type once.
//
//===----------------------------------------------------------------------===//

#include "Parallel.h"
#include "Storage.h"
#include "runtime/kernels/cpu/Kernels.h"

#include <algorithm>

using namespace qwen;
using namespace qwen::cpu;

namespace {

template <typename S, typename G> class Sums {
public:
  Sums(const EmbeddingGradShardArgs &args, std::byte *workspace)
      : args(args), ids(args.ids.as<int32_t>()), tokens(args.ids.dim(0)),
        width(args.dout.dim(1)) {
    Carver carver(workspace);
    order = TokenOrder(carver, args).tokens;
  }

  void run() {
    if (!args.accumulate)
      writeZeros();
    for (int64_t t = 0; t < tokens; ++t)
      order[t] = static_cast<int32_t>(t);
    std::sort(order, order + tokens, [&](int32_t a, int32_t b) {
      return ids[a] != ids[b] ? ids[a] < ids[b] : a < b;
    });
    parallelBlocks(tokens, 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        if (i == 0 || ids[order[i]] != ids[order[i - 1]])
          addRows(i);
    });
  }

private:
  void writeZeros() {
    G *shard = args.shard.template as<G>();
    parallelBlocks(args.shard.elements(), 1 << 16,
                   [&](int64_t begin, int64_t end) {
                     std::fill(shard + begin, shard + end, narrow<G>(0.0f));
                   });
  }

  /// Adds the rows of the id whose first place in the order is `place`.
  void addRows(int64_t place) {
    int64_t id = ids[order[place]];
    if (id < 0 || id >= args.rows)
      return;
    int64_t end = place;
    while (end < tokens && ids[order[end]] == id)
      ++end;
    int64_t first = args.begin + id * width;
    int64_t last = std::min(args.shard.elements(), first + width);
    for (int64_t i = std::max<int64_t>(first, 0); i < last; ++i) {
      G &to = args.shard.template as<G>()[i];
      Wide<S> sum = args.accumulate ? widen(to) : Wide<S>(0);
      for (int64_t k = place; k < end; ++k)
        sum += widen(
            args.dout
                .template as<S>()[order[k] * args.dout.strides[0] + i - first]);
      to = narrow<G>(sum);
    }
  }

  const EmbeddingGradShardArgs &args;
  const int32_t *ids;
  int64_t tokens, width;
  int32_t *order;
};

template <typename S>
void run(const EmbeddingGradShardArgs &args, std::byte *workspace) {
  if (args.shard.dtype == DType::BF16)
    Sums<S, BFloat16>(args, workspace).run();
  else
    Sums<S, Wide<S>>(args, workspace).run();
}

} // namespace

void qwen::cpu::launch(const EmbeddingGradShardArgs &args,
                       const LaunchContext &context) {
  withStorage(args.dout.dtype, [&](auto tag) {
    run<decltype(tag)>(args, context.workspace.data());
  });
}
