//===- Attention.cu - Causal attention inside documents --------*- CUDA -*-===//
//
// kernel.attention. A piece of work is a pair of blocks of queries of one head;
// each warpgroup has one block and walks the key blocks from its diagonal down
// to the document's first, with a running maximum and sum. The scores of the
// next key block run on the tensor cores under the softmax of this one.
//
//===----------------------------------------------------------------------===//

#include "AttentionParts.cuh"
#include "Kernels.h"

using namespace qwen;
using namespace qwen::cuda;

namespace {

constexpr int stages = 2;

struct ForwardWork {
  AttentionTile tile;
  int head, isEnd;
};

template <int D> struct ForwardSmem {
  static constexpr uint32_t tileBytes = D * blockRows * 2;
  alignas(1024) std::byte q[2][tileBytes]; ///< later the output
  std::byte k[stages][tileBytes], v[stages][tileBytes];
  TileBarriers<stages> keys, values;
  TileBarriers<1> queries[2];
  ForwardWork work[2];

  /// By one thread.
  QWEN_DEVICE void init() {
    keys.init(8);
    values.init(8);
    for (TileBarriers<1> &barriers : queries)
      barriers.init(4);
    barrierInitFence();
  }
};

struct ForwardOperands {
  RaggedTensor q, k, v, o;
  HeadValues lse;
  int *ticket;
  float scale; ///< of the scores, in units of log 2
};

QWEN_DEVICE int lastBlock(const AttentionTile &pair) {
  return min(2 * pair.index + 1, pair.blocks - 1);
}

/// One thread: hands out work and loads its tiles.
template <int D>
QWEN_DEVICE void loadForward(ForwardSmem<D> &smem, const AttentionSizes &sizes,
                             const AttentionBuffers &buffers,
                             const ForwardOperands &in) {
  constexpr uint32_t bytes = ForwardSmem<D>::tileBytes;
  TilePlace<stages> key, value;
  TilePlace<1> query;
  int count = buffers.header->pairs * sizes.heads;
  for (;;) {
    int ticket = atomicAdd(in.ticket, 1);
    ForwardWork work = {};
    work.isEnd = ticket >= count;
    if (!work.isEnd) {
      work.tile = buffers.pairs[ticket / sizes.heads];
      work.head = ticket % sizes.heads;
    }
    for (int w = 0; w < 2; ++w) {
      SmemAddr full = smemAddress(&smem.queries[w].full[0]);
      smem.queries[w].waitEmpty(query);
      smem.work[w] = work;
      int block = 2 * work.tile.index + w;
      if (work.isEnd || block >= work.tile.blocks) {
        barrierArrive(full);
        continue;
      }
      barrierArriveExpect(full, bytes);
      loadRows(smemAddress(smem.q[w]), in.q, work.tile.document,
               block * blockRows, work.head, full);
    }
    query.advance();
    if (work.isEnd)
      return;
    int keyHead = work.head / sizes.groups;
    for (int block = lastBlock(work.tile); block >= 0; --block) {
      auto load = [&](TileBarriers<stages> &barriers, TilePlace<stages> &place,
                      std::byte *tile, const RaggedTensor &from) {
        barriers.waitEmpty(place);
        SmemAddr full = smemAddress(&barriers.full[place.stage]);
        barrierArriveExpect(full, bytes);
        loadRows(smemAddress(tile), from, work.tile.document, block * blockRows,
                 keyHead, full);
        place.advance();
      };
      load(smem.keys, key, smem.k[key.stage], in.k);
      load(smem.values, value, smem.v[value.stage], in.v);
    }
  }
}

/// Registers of one warpgroup: 64 queries, two rows a thread.
template <int D> struct ForwardState {
  float o[D / 2];
  float scores[32];
  uint32_t packed[4][4];
  float maximum[2], sum[2]; ///< of scores; of this thread's exponentials
};

/// Scores to exponentials under the new maximum; returns by how much what was
/// summed before shrinks.
template <int D> QWEN_DEVICE float2 softmax(ForwardState<D> &r, float scale) {
  float largest[2] = {r.maximum[0], r.maximum[1]}, shrink[2], offset[2];
#pragma unroll
  for (int i = 0; i < 32; ++i)
    largest[i / 2 % 2] = fmaxf(largest[i / 2 % 2], r.scores[i]);
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    float x = largest[row];
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 2));
    shrink[row] = exp2Fast((r.maximum[row] - x) * scale);
    r.maximum[row] = x;
    r.sum[row] *= shrink[row];
    offset[row] = x * scale;
  }
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    r.scores[i] = exp2Fast(fmaf(r.scores[i], scale, -offset[i / 2 % 2]));
    r.sum[i / 2 % 2] += r.scores[i];
  }
  return {shrink[0], shrink[1]};
}

template <int D> QWEN_DEVICE void maskDiagonal(ForwardState<D> &r) {
#pragma unroll
  for (int i = 0; i < 32; ++i)
    if (registerColumn(i) > registerRow(i))
      r.scores[i] = -__int_as_float(0x7f800000);
}

/// One block of queries; its tiles of keys and values are the next in the
/// rings.
template <int D>
QWEN_DEVICE void attend(ForwardState<D> &r, ForwardSmem<D> &smem, int half,
                        int block, TilePlace<stages> &key,
                        TilePlace<stages> &value, float scale) {
  Operand<Major::K> q(smemAddress(smem.q[half]), blockPanelBytes);
  auto releaseKeys = [&] {
    smem.keys.release(key);
    key.advance();
  };
  auto releaseValues = [&] {
    smem.values.release(value);
    value.advance();
  };
  auto issueScores = [&] {
    smem.keys.waitFull(key);
    Operand<Major::K> k(smemAddress(smem.k[key.stage]), blockPanelBytes);
    wgmmaFence();
    product<64, D / 16>(r.scores, q, k, false);
    wgmmaCommit();
  };
  auto issueOutput = [&] {
    smem.values.waitFull(value);
    Operand<Major::MN> v(smemAddress(smem.v[value.stage]), blockPanelBytes);
    wgmmaFence();
    product<D, 4>(r.o, r.packed, v, true);
    wgmmaCommit();
  };
#pragma unroll
  for (float &x : r.o)
    x = 0;
  r.sum[0] = r.sum[1] = 0;
  r.maximum[0] = r.maximum[1] = -1e30f;
  issueScores();
  wgmmaWait<0>();
  holdRegisters(r.scores);
  releaseKeys();
  maskDiagonal(r);
  softmax(r, scale);
  packAccumulator(r.packed, r.scores);
  for (int rest = block; rest > 0; --rest) {
    issueScores();
    issueOutput();
    wgmmaWait<1>();
    holdRegisters(r.scores);
    releaseKeys();
    float2 shrink = softmax(r, scale);
    wgmmaWait<0>();
    holdRegisters(r.o);
    releaseValues();
#pragma unroll
    for (int i = 0; i < D / 2; ++i)
      r.o[i] *= i / 2 % 2 ? shrink.y : shrink.x;
    packAccumulator(r.packed, r.scores);
  }
  issueOutput();
  wgmmaWait<0>();
  holdRegisters(r.o);
  releaseValues();
}

/// Divides by the sums, stores o and lse.
template <int D>
QWEN_DEVICE void finish(ForwardState<D> &r, ForwardSmem<D> &smem, int half,
                        const ForwardWork &work, const ForwardOperands &out) {
  int first = (2 * work.tile.index + half) * blockRows;
  float inverse[2];
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    float sum = r.sum[row];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    inverse[row] = 1 / sum;
    int inDocument = first + registerRow(2 * row);
    if (threadIdx.x % 4 == 0 && inDocument < work.tile.document.length)
      out.lse
          .data[(work.tile.document.token + inDocument) * out.lse.tokenStride +
                work.head * out.lse.headStride] =
          (r.maximum[row] * out.scale + log2f(sum)) / log2OfE;
  }
#pragma unroll
  for (int i = 0; i < D / 2; ++i)
    r.o[i] *= inverse[i / 2 % 2];
  storeTile<D>(r.o, smemAddress(smem.q[half]), out.o, work.tile.document, first,
               work.head, 1 + half);
}

template <int D>
QWEN_DEVICE void computeForward(ForwardSmem<D> &smem,
                                const ForwardOperands &operands) {
  int half = warpgroupIndex();
  TilePlace<stages> key, value;
  TilePlace<1> query;
  ForwardState<D> r;
  for (;; query.advance()) {
    smem.queries[half].waitFull(query);
    ForwardWork work = smem.work[half];
    if (uniform(work.isEnd))
      break;
    int last = uniform(lastBlock(work.tile));
    int block = uniform(2 * work.tile.index + half);
    // Key blocks behind this block's diagonal are for the other warpgroup.
    for (int other = last; other > block || (block > last && other >= 0);
         --other) {
      smem.keys.waitFull(key);
      smem.keys.release(key);
      key.advance();
      smem.values.waitFull(value);
      smem.values.release(value);
      value.advance();
    }
    if (block <= last) {
      attend<D>(r, smem, half, block, key, value, operands.scale);
      finish<D>(r, smem, half, work, operands);
    }
    smem.queries[half].release(query);
  }
  if (threadIdx.x % 128 == 0)
    bulkStoreWait();
}

template <int D>
__global__ void __launch_bounds__(attentionThreads, 1)
    forward(AttentionSizes sizes, AttentionBuffers buffers,
            const __grid_constant__ ForwardOperands operands) {
  extern __shared__ __align__(1024) std::byte raw[];
  ForwardSmem<D> &smem = *reinterpret_cast<ForwardSmem<D> *>(raw);
  if (threadIdx.x == 0)
    smem.init();
  __syncthreads();
  if (warpgroupIndex() == 2) {
    lowerRegisters<attentionLoaderRegisters>();
    if (threadIdx.x == 256)
      loadForward<D>(smem, sizes, buffers, operands);
  } else {
    raiseRegisters<attentionRegisters>();
    computeForward<D>(smem, operands);
  }
}

} // namespace

cudaError_t qwen::cuda::launch(const AttentionArgs &args,
                               const LaunchContext &context) {
  AttentionSizes sizes(args);
  Carver carver(context.workspace.data());
  AttentionBuffers buffers(carver, sizes, false);
  ForwardOperands operands;
  operands.lse = {args.lse.as<float>(), args.lse.strides[0],
                  args.lse.strides[1]};
  operands.ticket = &buffers.header->nextForward;
  operands.scale = static_cast<float>(args.scale * log2OfE);
  cudaError_t error = makeRaggedTensor(operands.q, args.q);
  if (error == cudaSuccess)
    error = makeRaggedTensor(operands.k, args.k);
  if (error == cudaSuccess)
    error = makeRaggedTensor(operands.v, args.v);
  if (error == cudaSuccess)
    error = makeRaggedTensor(operands.o, args.o);
  if (error != cudaSuccess)
    return error;
  UncoveredOutputs uncovered = {
      {uncoveredRows(args.o), uncoveredRows(args.lse)}, 2};
  error = enqueueAttentionSchedule(sizes, buffers, args.cuSeqlens.as<int>(),
                                   false, uncovered, context.stream);
  if (error != cudaSuccess)
    return error;
  return withHeadDim(args.q.dim(2), [&]<int D>() {
    return launchPersistent(forward<D>, sizeof(ForwardSmem<D>), context.stream,
                            sizes, buffers, operands);
  });
}
