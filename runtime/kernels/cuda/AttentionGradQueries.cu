//===- AttentionGradQueries.cu - Gradients of queries ----------*- CUDA -*-===//
//
// dq = scale ds k, from the images of ds^T that the kernel of the key gradients
// left. A piece of work is a pair of blocks of queries of one head; each
// warpgroup has one block and walks its key blocks in order.
//
//===----------------------------------------------------------------------===//

#include "AttentionParts.cuh"

using namespace qwen;
using namespace qwen::cuda;

namespace {

constexpr int stages = 3;

struct QueryWork {
  AttentionTile tile;
  int head, isEnd; ///< the head in the pass
};

template <int D> struct QuerySmem {
  static constexpr uint32_t tileBytes = D * blockRows * 2;
  alignas(1024) std::byte out[2][tileBytes];
  std::byte k[stages][tileBytes];
  std::byte squares[stages][2][squareImageBytes];
  TileBarriers<stages> tiles;
  TileBarriers<2> works;
  QueryWork work[2];

  /// By one thread.
  QWEN_DEVICE void init() {
    tiles.init(8);
    works.init(8);
    barrierInitFence();
  }
};

struct QueryOperands {
  RaggedTensor k, dq;
  int *ticket;
  int firstHead, passHeads; ///< of this pass
  float scale;
};

/// One thread: hands out work and loads its tiles.
template <int D>
QWEN_DEVICE void loadQueryWork(QuerySmem<D> &smem, const AttentionSizes &sizes,
                               const AttentionBuffers &buffers,
                               const QueryOperands &in) {
  constexpr uint32_t bytes = QuerySmem<D>::tileBytes;
  TilePlace<stages> place;
  TilePlace<2> item;
  int count = buffers.header->pairs * in.passHeads;
  for (;;) {
    int ticket = atomicAdd(in.ticket, 1);
    QueryWork work = {};
    work.isEnd = ticket >= count;
    if (!work.isEnd) {
      work.tile = buffers.pairs[ticket / in.passHeads];
      work.head = ticket % in.passHeads;
    }
    smem.works.waitEmpty(item);
    smem.work[item.stage] = work;
    barrierArrive(smemAddress(&smem.works.full[item.stage]));
    item.advance();
    if (work.isEnd)
      return;
    const AttentionTile &tile = work.tile;
    int keyHead = (in.firstHead + work.head) / sizes.groups;
    int first = 2 * tile.index, last = min(first + 1, tile.blocks - 1);
    const std::byte *squares =
        buffers.squares +
        (int64_t(work.head) * sizes.maxSquares + tile.firstSquare) *
            squareImageBytes;
    for (int block = 0; block <= last; ++block) {
      int s = place.stage;
      smem.tiles.waitEmpty(place);
      SmemAddr full = smemAddress(&smem.tiles.full[s]);
      bool isFirst = block <= first, isSecond = last > first;
      barrierArriveExpect(full,
                          bytes + (isFirst + isSecond) * squareImageBytes);
      loadRows(smemAddress(smem.k[s]), in.k, tile.document, block * blockRows,
               keyHead, full);
      for (int w = 0; w < 2; ++w)
        if (w == 0 ? isFirst : isSecond)
          bulkLoad(smemAddress(smem.squares[s][w]),
                   squares +
                       (int64_t(first + w) * (first + w + 1) / 2 + block) *
                           squareImageBytes,
                   squareImageBytes, full);
      place.advance();
    }
  }
}

template <int D>
QWEN_DEVICE void computeQueryWork(QuerySmem<D> &smem,
                                  const QueryOperands &operands) {
  int half = warpgroupIndex();
  TilePlace<stages> place;
  TilePlace<2> item;
  float dq[D / 2];
  for (;;) {
    smem.works.waitFull(item);
    QueryWork work = smem.work[item.stage];
    smem.works.release(item);
    item.advance();
    if (uniform(work.isEnd))
      break;
    int mine = uniform(2 * work.tile.index + half);
    int last = uniform(min(2 * work.tile.index + 1, work.tile.blocks - 1));
#pragma unroll
    for (float &x : dq)
      x = 0;
    int block = 0;
    if (mine <= last)
      for (; block <= mine; ++block) {
        smem.tiles.waitFull(place);
        Operand<Major::MN> ds(smemAddress(smem.squares[place.stage][half]),
                              squareImageBytes);
        Operand<Major::MN> k(smemAddress(smem.k[place.stage]), blockPanelBytes);
        wgmmaFence();
        product<D, 4>(dq, ds, k, true);
        wgmmaCommit();
        wgmmaWait<0>();
        holdRegisters(dq);
        smem.tiles.release(place);
        place.advance();
      }
    for (; block <= last; ++block) {
      smem.tiles.waitFull(place);
      smem.tiles.release(place);
      place.advance();
    }
    if (mine > last)
      continue;
#pragma unroll
    for (float &x : dq)
      x *= operands.scale;
    storeTile<D>(dq, smemAddress(smem.out[half]), operands.dq,
                 work.tile.document, mine * blockRows,
                 operands.firstHead + work.head, 1 + half);
    // The tile is free once its store has read it.
    namedSync(1 + half, 128);
  }
  if (threadIdx.x % 128 == 0)
    bulkStoreWait();
}

template <int D>
__global__ void __launch_bounds__(attentionThreads, 1)
    queryGradients(AttentionSizes sizes, AttentionBuffers buffers,
                   const __grid_constant__ QueryOperands operands) {
  extern __shared__ __align__(1024) std::byte raw[];
  QuerySmem<D> &smem = *reinterpret_cast<QuerySmem<D> *>(raw);
  if (threadIdx.x == 0)
    smem.init();
  __syncthreads();
  if (warpgroupIndex() == 2) {
    lowerRegisters<attentionLoaderRegisters>();
    if (threadIdx.x == 256)
      loadQueryWork<D>(smem, sizes, buffers, operands);
  } else {
    raiseRegisters<attentionRegisters>();
    computeQueryWork<D>(smem, operands);
  }
}

} // namespace

cudaError_t qwen::cuda::enqueueQueryGradients(const AttentionGradArgs &args,
                                              const AttentionSizes &sizes,
                                              const AttentionBuffers &buffers,
                                              int pass, cudaStream_t stream) {
  QueryOperands operands;
  int firstKeyHead = pass * sizes.passKeyHeads;
  operands.ticket = &buffers.header->nextQueries[pass];
  operands.firstHead = firstKeyHead * sizes.groups;
  operands.passHeads =
      std::min(sizes.passKeyHeads, sizes.keyHeads - firstKeyHead) *
      sizes.groups;
  operands.scale = static_cast<float>(args.scale);
  cudaError_t error = makeRaggedTensor(operands.k, args.k);
  if (error == cudaSuccess)
    error = makeRaggedTensor(operands.dq, args.dq);
  if (error != cudaSuccess)
    return error;
  return withHeadDim(args.q.dim(2), [&]<int D>() {
    return launchPersistent(queryGradients<D>, sizeof(QuerySmem<D>), stream,
                            sizes, buffers, operands);
  });
}
