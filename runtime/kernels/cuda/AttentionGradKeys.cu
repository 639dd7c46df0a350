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
      barrierInit(smemAddress(&shared.full[i]), 4);
      barrierInit(smemAddress(&shared.empty[i]), 4);
    }
    for (TileBarriers<1> &barriers : keys)
      barriers.init(1);
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

/// Rings of a warpgroup.
struct KeyPlaces {
  TilePlace<stages> query;
  TilePlace<slots> slot;
};

/// [64 keys, 64 queries] = keys rows^T.
template <int D>
QWEN_DEVICE void keyProduct(float (&d)[32], const std::byte *keys,
                            const std::byte *rows) {
  Operand<Major::K> a(smemAddress(keys), blockPanelBytes);
  Operand<Major::K> b(smemAddress(rows), blockPanelBytes);
  wgmmaFence();
  product<64, D / 16>(d, a, b, false);
  wgmmaCommit();
  wgmmaWait<0>();
  holdRegisters(d);
}

/// gradient += packed rows.
template <int D>
QWEN_DEVICE void addProduct(float (&gradient)[D / 2],
                            const uint32_t (&packed)[4][4],
                            const std::byte *rows) {
  Operand<Major::MN> b(smemAddress(rows), blockPanelBytes);
  wgmmaFence();
  product<D, 4>(gradient, packed, b, true);
  wgmmaCommit();
}

QWEN_DEVICE float2 pairAt(const float *vector, int i) {
  return *reinterpret_cast<const float2 *>(vector + registerColumn(i));
}

/// One block of queries in the first warpgroup.
template <int D>
QWEN_DEVICE void addValues(float (&dv)[D / 2], KeySmem<D> &smem, KeyPlaces &at,
                           bool isDiagonal, float scale) {
  float p[32];
  uint32_t packed[4][4];
  int s = at.query.stage;
  smem.queries.waitFull(at.query);
  keyProduct<D>(p, smem.k, smem.q[s]);
#pragma unroll
  for (int i = 0; i < 32; i += 4) {
    float2 lse = pairAt(smem.statistics[s].lse, i);
#pragma unroll
    for (int j = i; j < i + 4; ++j)
      p[j] = exp2Fast(fmaf(p[j], scale, -(j % 2 ? lse.y : lse.x)));
  }
  if (isDiagonal) {
#pragma unroll
    for (int i = 0; i < 32; ++i)
      if (registerRow(i) > registerColumn(i))
        p[i] = 0;
  }
  packAccumulator(packed, p);
  smem.shared.waitEmpty(at.slot);
#pragma unroll
  for (int j = 0; j < 4; ++j)
    smem.probabilities[at.slot.stage][j][threadIdx.x % 128] = {
        packed[j][0], packed[j][1], packed[j][2], packed[j][3]};
  barrierArriveWarp(smemAddress(&smem.shared.full[at.slot.stage]));
  at.slot.advance();
  addProduct<D>(dv, packed, smem.dout[s]);
  wgmmaWait<0>();
  holdRegisters(dv);
  barrierArriveWarp(smemAddress(&smem.queries.empty[s]));
  at.query.advance();
}

/// One block of queries in the second warpgroup; `image` takes ds^T.
template <int D>
QWEN_DEVICE void addKeys(float (&dk)[D / 2], KeySmem<D> &smem, KeyPlaces &at,
                         std::byte *image) {
  float ds[32];
  uint32_t packed[4][4];
  int s = at.query.stage, slot = at.slot.stage;
  smem.queries.waitFull(at.query);
  keyProduct<D>(ds, smem.v, smem.dout[s]);
  smem.shared.waitFull(at.slot);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    uint4 p = smem.probabilities[slot][j][threadIdx.x % 128];
    float2 first = pairAt(smem.statistics[s].delta, 8 * j);
    float2 second = pairAt(smem.statistics[s].delta, 8 * j + 4);
    float *d = ds + 8 * j;
    packed[j][0] = packBf16(lowBf16(p.x) * (d[0] - first.x),
                            highBf16(p.x) * (d[1] - first.y));
    packed[j][1] = packBf16(lowBf16(p.y) * (d[2] - first.x),
                            highBf16(p.y) * (d[3] - first.y));
    packed[j][2] = packBf16(lowBf16(p.z) * (d[4] - second.x),
                            highBf16(p.z) * (d[5] - second.y));
    packed[j][3] = packBf16(lowBf16(p.w) * (d[6] - second.x),
                            highBf16(p.w) * (d[7] - second.y));
  }
  barrierArriveWarp(smemAddress(&smem.shared.empty[slot]));
  at.slot.advance();
  storeFragments(packed, smemAddress(smem.square[slot]), blockPanelBytes);
  addProduct<D>(dk, packed, smem.q[s]);
  fenceProxyAsync();
  // Frees the other square, whose store went out a block ago.
  if (threadIdx.x % 128 == 0)
    bulkStoreWaitRead();
  namedSync(2, 128);
  if (threadIdx.x % 128 == 0) {
    bulkStore(image, smemAddress(smem.square[slot]), squareImageBytes);
    bulkStoreCommit();
  }
  wgmmaWait<0>();
  holdRegisters(dk);
  barrierArriveWarp(smemAddress(&smem.queries.empty[s]));
  at.query.advance();
}

/// All blocks of queries that see one block of keys.
template <int D, bool isFirst>
QWEN_DEVICE void gather(float (&d)[D / 2], KeySmem<D> &smem, KeyPlaces &at,
                        const AttentionSizes &sizes,
                        const AttentionBuffers &buffers, const KeyWork &work,
                        const KeyOperands &operands) {
  const AttentionTile &tile = work.tile;
  int from = uniform(tile.index), to = uniform(tile.blocks);
#pragma unroll
  for (float &x : d)
    x = 0;
  for (int g = 0; g < sizes.groups; ++g) {
    int64_t head = work.keyHead * sizes.groups + g;
    for (int block = from; block < to; ++block) {
      if constexpr (isFirst) {
        addValues<D>(d, smem, at, block == from, operands.scoreScale);
      } else {
        int64_t square = tile.firstSquare + block * (block + 1) / 2 + from;
        addKeys<D>(d, smem, at,
                   buffers.squares +
                       (head * sizes.maxSquares + square) * squareImageBytes);
      }
    }
  }
}

template <int D, bool isFirst>
QWEN_DEVICE void computeKeyWork(KeySmem<D> &smem, const AttentionSizes &sizes,
                                const AttentionBuffers &buffers,
                                const KeyOperands &operands) {
  constexpr int half = isFirst ? 0 : 1;
  TilePlace<1> key;
  KeyPlaces at;
  float d[D / 2];
  for (;; key.advance()) {
    smem.keys[half].waitFull(key);
    KeyWork work = smem.work[half];
    if (uniform(work.isEnd))
      break;
    gather<D, isFirst>(d, smem, at, sizes, buffers, work, operands);
    if constexpr (!isFirst)
#pragma unroll
      for (float &x : d)
        x *= operands.scale;
    storeTile<D>(d, smemAddress(isFirst ? smem.k : smem.v),
                 isFirst ? operands.dv : operands.dk, work.tile.document,
                 work.tile.index * blockRows,
                 operands.firstKeyHead + work.keyHead, 1 + half);
    if (threadIdx.x % 128 == 0)
      barrierArrive(smemAddress(&smem.keys[half].empty[0]));
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
