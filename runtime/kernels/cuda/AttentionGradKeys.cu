//===- AttentionGradKeys.cu - Gradients of keys and values -----*- CUDA -*-===//
//
// A piece of work is one block of keys of one key head; it walks the query
// heads of the group and their blocks from the diagonal on. Everything is
// transposed: rows are keys.
//
//   first warpgroup:   p^T = exp(scale k q^T - lse),         dv += p^T do
//   second warpgroup:  ds^T = p^T o (v do^T - delta),        dk += ds^T q
//
// Both hold the same accumulator layout, so p^T goes from one to the other
// thread by thread. ds^T leaves as the image of a swizzled tile, from which the
// query gradients are a plain product: storing a pair costs four bytes, while
// forming it again would cost four times the head dimension in operations.
//
//===----------------------------------------------------------------------===//

#include "AttentionParts.cuh"

using namespace qwen;
using namespace qwen::cuda;

namespace {

constexpr int stages = 2, slots = 2;

struct KeyWork {
  AttentionTile tile;
  int keyHead, isEnd; ///< the key head in the pass
};

template <int D> struct KeySmem {
  static constexpr uint32_t tileBytes = D * blockRows * 2;
  alignas(1024) std::byte k[tileBytes]; ///< later dv: read by the first alone
  std::byte v[tileBytes];               ///< later dk: read by the second alone
  std::byte q[stages][tileBytes], dout[stages][tileBytes];
  std::byte square[slots][squareImageBytes]; ///< ds^T
  uint4 probabilities[slots][4][128];        ///< p^T, by thread
  BlockStatistics statistics[stages];
  TileBarriers<stages> queries;
  TileBarriers<slots> shared;
  TileBarriers<1> keys[2];
  KeyWork work[2];

  /// By one thread.
  QWEN_DEVICE void init() {
    queries.init(8);
    for (int i = 0; i < slots; ++i) {
      barrierInit(smemAddress(&shared.full[i]), 128);
      barrierInit(smemAddress(&shared.empty[i]), 128);
    }
    for (TileBarriers<1> &barriers : keys)
      barriers.init(4);
    barrierInitFence();
  }
};

struct KeyOperands {
  RaggedTensor q, k, v, dout, dk, dv;
  int *ticket;
  int firstKeyHead, passKeyHeads; ///< of this pass
  float scoreScale;               ///< of the scores, in units of log 2
  float scale;
};

/// One thread: hands out work and loads its tiles.
template <int D>
QWEN_DEVICE void loadKeyWork(KeySmem<D> &smem, const AttentionSizes &sizes,
                             const AttentionBuffers &buffers,
                             const KeyOperands &in) {
  constexpr uint32_t bytes = KeySmem<D>::tileBytes;
  TilePlace<stages> query;
  TilePlace<1> key;
  int count = buffers.header->blocks * in.passKeyHeads;
  for (;;) {
    int ticket = atomicAdd(in.ticket, 1);
    KeyWork work = {};
    work.isEnd = ticket >= count;
    if (!work.isEnd) {
      work.tile = buffers.blocks[ticket / in.passKeyHeads];
      work.keyHead = ticket % in.passKeyHeads;
    }
    const AttentionTile &tile = work.tile;
    int keyHead = in.firstKeyHead + work.keyHead;
    for (int w = 0; w < 2; ++w) {
      SmemAddr full = smemAddress(&smem.keys[w].full[0]);
      smem.keys[w].waitEmpty(key);
      smem.work[w] = work;
      if (work.isEnd) {
        barrierArrive(full);
        continue;
      }
      barrierArriveExpect(full, bytes);
      loadRows(smemAddress(w == 0 ? smem.k : smem.v), w == 0 ? in.k : in.v,
               tile.document, tile.index * blockRows, keyHead, full);
    }
    key.advance();
    if (work.isEnd)
      return;
    for (int g = 0; g < sizes.groups; ++g)
      for (int block = tile.index; block < tile.blocks; ++block) {
        int head = keyHead * sizes.groups + g, s = query.stage;
        smem.queries.waitEmpty(query);
        SmemAddr full = smemAddress(&smem.queries.full[s]);
        barrierArriveExpect(full, 2 * bytes + sizeof(BlockStatistics));
        loadRows(smemAddress(smem.q[s]), in.q, tile.document, block * blockRows,
                 head, full);
        loadRows(smemAddress(smem.dout[s]), in.dout, tile.document,
                 block * blockRows, head, full);
        bulkLoad(smemAddress(&smem.statistics[s]),
                 buffers.statistics + int64_t(head) * sizes.maxBlocks +
                     tile.firstBlock + block,
                 sizeof(BlockStatistics), full);
        query.advance();
      }
  }
}

/// Registers of one warpgroup and its places in the rings.
template <int D> struct KeyState {
  float gradient[D / 2]; ///< dv or dk, [64 keys, D]
  float scores[32];      ///< k q^T or v do^T, [64 keys, 64 queries]
  uint32_t packed[4][4]; ///< p^T or ds^T
  TilePlace<stages> query;
  TilePlace<slots> slot;
};

/// Starts scores = keys rows^T.
template <int D>
QWEN_DEVICE void issueScores(KeyState<D> &r, const std::byte *keys,
                             const std::byte *rows) {
  Operand<Major::K> a(smemAddress(keys), blockPanelBytes);
  Operand<Major::K> b(smemAddress(rows), blockPanelBytes);
  wgmmaFence();
  product<64, D / 16>(r.scores, a, b, false);
  wgmmaCommit();
}

/// Starts gradient += packed rows.
template <int D>
QWEN_DEVICE void issueGradient(KeyState<D> &r, const std::byte *rows) {
  Operand<Major::MN> b(smemAddress(rows), blockPanelBytes);
  wgmmaFence();
  product<D, 4>(r.gradient, r.packed, b, true);
  wgmmaCommit();
}

QWEN_DEVICE float2 pairAt(const float *vector, int i) {
  return *reinterpret_cast<const float2 *>(vector + registerColumn(i));
}

/// In the first warpgroup: scores to probabilities, handed to the second.
template <int D>
QWEN_DEVICE void formProbabilities(KeyState<D> &r, KeySmem<D> &smem,
                                   bool isDiagonal, float scale) {
  const BlockStatistics &statistics = smem.statistics[r.query.stage];
#pragma unroll
  for (int i = 0; i < 32; i += 4) {
    float2 lse = pairAt(statistics.lse, i);
#pragma unroll
    for (int j = i; j < i + 4; ++j)
      r.scores[j] =
          exp2Fast(fmaf(r.scores[j], scale, -(j % 2 ? lse.y : lse.x)));
  }
  if (isDiagonal) {
#pragma unroll
    for (int i = 0; i < 32; ++i)
      if (registerRow(i) > registerColumn(i))
        r.scores[i] = 0;
  }
  packAccumulator(r.packed, r.scores);
  smem.shared.waitEmpty(r.slot);
#pragma unroll
  for (int j = 0; j < 4; ++j)
    smem.probabilities[r.slot.stage][j][threadIdx.x % 128] = {
        r.packed[j][0], r.packed[j][1], r.packed[j][2], r.packed[j][3]};
  barrierArrive(smemAddress(&smem.shared.full[r.slot.stage]));
  r.slot.advance();
}

/// In the second warpgroup: ds^T from the first's probabilities, also to
/// `square`.
template <int D>
QWEN_DEVICE void formScoreGradients(KeyState<D> &r, KeySmem<D> &smem,
                                    std::byte *square) {
  const BlockStatistics &statistics = smem.statistics[r.query.stage];
  smem.shared.waitFull(r.slot);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    uint4 p = smem.probabilities[r.slot.stage][j][threadIdx.x % 128];
    float2 first = pairAt(statistics.delta, 8 * j);
    float2 second = pairAt(statistics.delta, 8 * j + 4);
    const float *d = r.scores + 8 * j;
    r.packed[j][0] = packBf16(lowBf16(p.x) * (d[0] - first.x),
                              highBf16(p.x) * (d[1] - first.y));
    r.packed[j][1] = packBf16(lowBf16(p.y) * (d[2] - first.x),
                              highBf16(p.y) * (d[3] - first.y));
    r.packed[j][2] = packBf16(lowBf16(p.z) * (d[4] - second.x),
                              highBf16(p.z) * (d[5] - second.y));
    r.packed[j][3] = packBf16(lowBf16(p.w) * (d[6] - second.x),
                              highBf16(p.w) * (d[7] - second.y));
  }
  smem.shared.release(r.slot);
  r.slot.advance();
  storeFragments(r.packed, smemAddress(square), blockPanelBytes);
}

/// Sends the square to memory, by the second warpgroup.
QWEN_DEVICE void exportSquare(std::byte *image, const std::byte *square) {
  fenceProxyAsync();
  // Frees the other square, whose store went out a block ago.
  if (threadIdx.x % 128 == 0)
    bulkStoreWaitRead();
  namedSync(2, 128);
  if (threadIdx.x % 128 == 0) {
    bulkStore(image, smemAddress(square), squareImageBytes);
    bulkStoreCommit();
  }
}

/// One block of queries, whose scores are there; starts the scores of the next
/// one behind its gradient, so that the tensor cores find work at once.
template <int D, bool isFirst, bool isLast>
QWEN_DEVICE void addQueries(KeyState<D> &r, KeySmem<D> &smem, bool isDiagonal,
                            std::byte *image, float scale) {
  TilePlace<stages> current = r.query;
  std::byte *square = smem.square[r.slot.stage];
  if constexpr (isFirst)
    formProbabilities<D>(r, smem, isDiagonal, scale);
  else
    formScoreGradients<D>(r, smem, square);
  issueGradient<D>(r,
                   isFirst ? smem.dout[current.stage] : smem.q[current.stage]);
  r.query.advance();
  if constexpr (!isLast) {
    smem.queries.waitFull(r.query);
    issueScores<D>(r, isFirst ? smem.k : smem.v,
                   isFirst ? smem.q[r.query.stage] : smem.dout[r.query.stage]);
  }
  if constexpr (!isFirst)
    exportSquare(image, square);
  wgmmaWait<isLast ? 0 : 1>();
  holdRegisters(r.gradient);
  smem.queries.release(current);
  wgmmaWait<0>();
  holdRegisters(r.scores);
}

/// All blocks of queries that see one block of keys, head after head.
template <int D, bool isFirst>
QWEN_DEVICE void gather(KeyState<D> &r, KeySmem<D> &smem,
                        const AttentionSizes &sizes,
                        const AttentionBuffers &buffers, const KeyWork &work,
                        const KeyOperands &operands) {
  const AttentionTile &tile = work.tile;
  int from = uniform(tile.index), to = uniform(tile.blocks);
  std::byte *squares = buffers.squares + (int64_t(work.keyHead) * sizes.groups *
                                              sizes.maxSquares +
                                          tile.firstSquare + from) *
                                             squareImageBytes;
  auto image = [&](int g, int64_t block) {
    int64_t square = int64_t(g) * sizes.maxSquares + block * (block + 1) / 2;
    return squares + square * squareImageBytes;
  };
#pragma unroll
  for (float &x : r.gradient)
    x = 0;
  smem.queries.waitFull(r.query);
  issueScores<D>(r, isFirst ? smem.k : smem.v,
                 isFirst ? smem.q[r.query.stage] : smem.dout[r.query.stage]);
  wgmmaWait<0>();
  holdRegisters(r.scores);
  int g = 0, block = from;
  for (int rest = sizes.groups * (to - from); rest > 1; --rest) {
    addQueries<D, isFirst, false>(r, smem, block == from, image(g, block),
                                  operands.scoreScale);
    if (++block == to) {
      block = from;
      ++g;
    }
  }
  addQueries<D, isFirst, true>(r, smem, block == from, image(g, block),
                               operands.scoreScale);
}

template <int D, bool isFirst>
QWEN_DEVICE void computeKeyWork(KeySmem<D> &smem, const AttentionSizes &sizes,
                                const AttentionBuffers &buffers,
                                const KeyOperands &operands) {
  constexpr int half = isFirst ? 0 : 1;
  TilePlace<1> key;
  KeyState<D> r;
  for (;; key.advance()) {
    smem.keys[half].waitFull(key);
    KeyWork work = smem.work[half];
    if (uniform(work.isEnd))
      break;
    gather<D, isFirst>(r, smem, sizes, buffers, work, operands);
    if constexpr (!isFirst)
#pragma unroll
      for (float &x : r.gradient)
        x *= operands.scale;
    storeTile<D>(r.gradient, smemAddress(isFirst ? smem.k : smem.v),
                 isFirst ? operands.dv : operands.dk, work.tile.document,
                 work.tile.index * blockRows,
                 operands.firstKeyHead + work.keyHead, 1 + half);
    smem.keys[half].release(key);
  }
  if (threadIdx.x % 128 == 0)
    bulkStoreWait();
}

template <int D>
__global__ void __launch_bounds__(attentionThreads, 1)
    keyGradients(AttentionSizes sizes, AttentionBuffers buffers,
                 const __grid_constant__ KeyOperands operands) {
  extern __shared__ __align__(1024) std::byte raw[];
  KeySmem<D> &smem = *reinterpret_cast<KeySmem<D> *>(raw);
  if (threadIdx.x == 0)
    smem.init();
  __syncthreads();
  int role = warpgroupIndex();
  if (role == 2) {
    lowerRegisters<attentionLoaderRegisters>();
    if (threadIdx.x == 256)
      loadKeyWork<D>(smem, sizes, buffers, operands);
  } else {
    raiseRegisters<attentionRegisters>();
    if (role == 0)
      computeKeyWork<D, true>(smem, sizes, buffers, operands);
    else
      computeKeyWork<D, false>(smem, sizes, buffers, operands);
  }
}

} // namespace

cudaError_t qwen::cuda::enqueueKeyGradients(const AttentionGradArgs &args,
                                            const AttentionSizes &sizes,
                                            const AttentionBuffers &buffers,
                                            int pass, cudaStream_t stream) {
  KeyOperands operands;
  operands.ticket = &buffers.header->nextKeys[pass];
  operands.firstKeyHead = pass * sizes.passKeyHeads;
  operands.passKeyHeads =
      std::min(sizes.passKeyHeads, sizes.keyHeads - operands.firstKeyHead);
  operands.scoreScale = static_cast<float>(args.scale * log2OfE);
  operands.scale = static_cast<float>(args.scale);
  const std::pair<RaggedTensor *, ConstBuffer> tensors[] = {
      {&operands.q, args.q},   {&operands.k, args.k},
      {&operands.v, args.v},   {&operands.dout, args.dout},
      {&operands.dk, args.dk}, {&operands.dv, args.dv}};
  for (const auto &[tensor, buffer] : tensors)
    if (cudaError_t error = makeRaggedTensor(*tensor, buffer);
        error != cudaSuccess)
      return error;
  return withHeadDim(args.q.dim(2), [&]<int D>() {
    return launchPersistent(keyGradients<D>, sizeof(KeySmem<D>), stream, sizes,
                            buffers, operands);
  });
}
