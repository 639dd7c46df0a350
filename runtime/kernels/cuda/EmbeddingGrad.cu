//===- EmbeddingGrad.cu - Gradient of a table by token id ------*- CUDA -*-===//
//
// kernel.embedding_grad and kernel.embedding_grad_shard. Tokens are sorted by
// (id, token), by counting how many come before each one: the keys differ, so
// there is one order. Then the block at the first token of an id adds that id's
// rows in token order, exactly as the CPU does. A shard begins and ends where
// vectors of the table do, so that each is inside or outside as a whole.
//
//===----------------------------------------------------------------------===//

#include "RowKernels.h"
#include "Vectors.cuh"
#include "runtime/kernels/cuda/Kernels.h"

using namespace qwen;
using namespace qwen::cuda;

namespace {

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

constexpr int slices = 8; ///< warps that share the counting for 32 tokens
constexpr int sortThreads = 32 * slices;

__global__ void __launch_bounds__(sortThreads)
    sortTokens(const int *ids, int tokens, int *sortedTokens, int *sortedIds) {
  __shared__ int counts[slices][32];
  int lane = threadIdx.x % 32, slice = threadIdx.x / 32;
  int token = blockIdx.x * 32 + lane;
  int id = token < tokens ? ids[token] : 0;
  int before = 0;
  // All lanes look at the same ids at a time, one load a warp. Of equal ids
  // those of earlier tokens come before; behind the last token, where the lists
  // are compared as later ones, nothing does.
  auto idOf = [&](int at) { return at < tokens ? ids[at] : INT_MAX; };
  auto countBefore = [&](int mine, auto &&isBefore) {
#pragma unroll
    for (int k = 0; k < 32; ++k)
      before += isBefore(__shfl_sync(~0u, mine, k), k);
  };
  int own = blockIdx.x * 32, next = idOf(slice * 32 + lane);
  for (int base = slice * 32; base < tokens; base += sortThreads) {
    int mine = next;
    next = idOf(base + sortThreads + lane);
    if (base < own)
      countBefore(mine, [&](int other, int) { return other <= id; });
    else if (base > own)
      countBefore(mine, [&](int other, int) { return other < id; });
    else
      countBefore(mine, [&](int other, int k) {
        return other < id || (other == id && k < lane);
      });
  }
  counts[slice][lane] = before;
  __syncthreads();
  if (slice > 0 || token >= tokens)
    return;
  int place = 0;
#pragma unroll
  for (int s = 0; s < slices; ++s)
    place += counts[s][lane];
  sortedTokens[place] = token;
  sortedIds[place] = id;
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

constexpr int threads = 128;
constexpr int stages = 16; ///< rows of a thread in flight together, divides 32

/// Copies 16 bytes to shared memory in the background.
QWEN_DEVICE void copyAsync(void *to, const void *from) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smemAddress(to)),
      "l"(from)
      : "memory");
}
QWEN_DEVICE void closeAsyncGroup() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// All but the newest `Open` groups have arrived.
template <int Open> QWEN_DEVICE void awaitAsyncGroups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Open) : "memory");
}

/// S is the type of the rows, G that of the table's gradient.
template <typename S, typename G> struct Operands {
  const S *dout;
  G *held; ///< the elements [0, heldElements) of a flat sequence
  const int *sortedTokens, *sortedIds;
  int64_t doutStride, tableStride;
  int64_t begin; ///< of the table in the sequence; may be negative
  int64_t rows, heldElements;
  int tokens, width;
};

/// Up to 32 places in sorted order, one in each lane.
struct TokenList {
  int id, token;
  int count; ///< leading places with the wanted id

  /// The loads do not wait for each other.
  template <typename AnyOperands>
  QWEN_DEVICE TokenList(const AnyOperands &a, int place) : count(0) {
    int at = place + int(threadIdx.x % 32);
    bool inside = at < a.tokens;
    id = inside ? a.sortedIds[at] : -1;
    token = inside ? a.sortedTokens[at] : 0;
  }
  QWEN_DEVICE void countId(int wanted) {
    count = __popc(__ballot_sync(~0u, id == wanted));
  }
};

/// Every thread waits only for the bytes it copied itself, so warps need not
/// meet.
template <typename S, typename G>
__global__ void __launch_bounds__(threads) addRows(Operands<S, G> a) {
  constexpr int lanes = 16 / sizeof(S);
  using Row = Vector<S, lanes>;
  __shared__ Row ring[stages][threads];
  int place = blockIdx.x;
  int previous = place > 0 ? a.sortedIds[place - 1] : -1;
  TokenList list(a, place), next = list;
  int id = __shfl_sync(~0u, list.id, 0);
  if (previous == id || id < 0 || id >= a.rows)
    return;
  int column = (blockIdx.y * threads + threadIdx.x) * lanes;
  int64_t at = a.begin + id * a.tableStride + column;
  bool active = column < a.width && at >= 0 && at < a.heldElements;
  G *to = a.held + at;
  Vector<G, lanes> old{};
  if (active)
    old = Vector<G, lanes>::load(to);
  list.countId(id);
  auto loadNext = [&] {
    next.count = 0;
    if (list.count < 32)
      return;
    next = TokenList(a, place + 32);
    next.countId(id);
  };
  loadNext();
  // Row i of `list` and then `next` goes to its place in the ring.
  auto request = [&](int i) {
    int64_t token = __shfl_sync(~0u, i < 32 ? list.token : next.token, i % 32);
    if (active && i < list.count + next.count)
      copyAsync(&ring[i % stages][threadIdx.x],
                a.dout + token * a.doutStride + column);
    closeAsyncGroup();
  };
  for (int i = 0; i < stages - 1; ++i)
    request(i);
  float sum[lanes];
#pragma unroll
  for (int c = 0; c < lanes; ++c)
    sum[c] = old[c];
  while (list.count > 0) {
    for (int i = 0; i < list.count; ++i) {
      awaitAsyncGroups<stages - 2>();
      Row row = ring[i % stages][threadIdx.x];
#pragma unroll
      for (int c = 0; c < lanes; ++c)
        sum[c] += row[c];
      request(i + stages - 1);
    }
    place += 32;
    list = next;
    loadNext();
  }
  if (active)
    Vector<G, lanes>::rounded(sum).store(to);
}

cudaError_t writeZeros(const Buffer &table, cudaStream_t stream) {
  if (table.isContiguous())
    return cudaMemsetAsync(table.data, 0, size_t(table.bytes()), stream);
  return cudaMemset2DAsync(table.data, table.strides[0] * sizeof(float), 0,
                           table.dim(1) * sizeof(float), table.dim(0), stream);
}

/// Where the table of a launch lies.
template <typename G> struct Table {
  G *held;
  int64_t stride, begin, rows, heldElements;
};

/// Adds the rows; `Args` is that of either kernel.
template <typename S, typename G, typename Args>
cudaError_t run(const Args &args, const Table<G> &table,
                const LaunchContext &context) {
  Carver carver(context.workspace.data());
  SortedTokens sorted(carver, args);
  int64_t tokens = args.ids.dim(0), width = args.dout.dim(1);
  sortTokens<<<ceilDiv(tokens, 32), sortThreads, 0, context.stream>>>(
      args.ids.template as<int>(), int(tokens), sorted.tokens, sorted.ids);
  if (cudaError_t error = cudaGetLastError())
    return error;
  Operands<S, G> operands{
      args.dout.template as<S>(), table.held,   sorted.tokens, sorted.ids,
      args.dout.strides[0],       table.stride, table.begin,   table.rows,
      table.heldElements,         int(tokens),  int(width)};
  dim3 grid(tokens, ceilDiv(width * sizeof(S), threads * 16));
  addRows<S, G><<<grid, threads, 0, context.stream>>>(operands);
  return cudaGetLastError();
}

} // namespace

cudaError_t qwen::cuda::launch(const EmbeddingGradArgs &args,
                               const LaunchContext &context) {
  if (!args.accumulate)
    if (cudaError_t error = writeZeros(args.dtable, context.stream))
      return error;
  const Buffer &dtable = args.dtable;
  Table<float> table{dtable.as<float>(), dtable.strides[0], 0, dtable.dim(0),
                     dtable.extent()};
  return withStorage(args.dout.dtype, [&](auto tag) {
    return run<decltype(tag)>(args, table, context);
  });
}

cudaError_t qwen::cuda::launch(const EmbeddingGradShardArgs &args,
                               const LaunchContext &context) {
  if (!args.accumulate)
    if (cudaError_t error = cudaMemsetAsync(
            args.shard.data, 0, size_t(args.shard.bytes()), context.stream))
      return error;
  return withStorage(args.shard.dtype, [&](auto shardTag) {
    using G = decltype(shardTag);
    Table<G> table{args.shard.as<G>(), args.dout.dim(1), args.begin, args.rows,
                   args.shard.elements()};
    return withStorage(args.dout.dtype, [&](auto tag) {
      return run<decltype(tag)>(args, table, context);
    });
  });
}
