//===- GatedDeltaPrepare.cu - What does not depend on the state -*- CUDA
//-*-===//
//
// One piece of work is a chunk of a key head: normalised q and k, and for each
// of its value heads the gates and the matrices A and P of GatedDeltaParts.cuh.
// A block has one warpgroup for each value head of a key head; they share the
// tiles of q and k.
//
// The inverse of the unit lower triangular matrix: its four diagonal blocks of
// 16 by substitution in f32, the blocks below from
// X_ij = -X_ii sum_k L_ik X_kj in f16 with f32 sums. It is taken of the matrix
// without decays, whose inverse has elements of at most 1, and decayed after.
//
//===----------------------------------------------------------------------===//

#include "GatedDeltaParts.cuh"

#include <cuda_fp16.h>

using namespace qwen;
using namespace qwen::cuda;

namespace {

constexpr int padded72 = 72; ///< row of a 64-wide f16 matrix without conflicts
constexpr float log2e = 1.4426950408889634f;

/// Of one value head, for its warpgroup alone.
struct ValueHeadSmem {
  /// In the end they hold the tiles of A and P.
  alignas(128) __half lower[chunkSize][padded72], inverse[chunkSize][padded72];
  float diagonal[4][16][16];
  GateVectors gates;
};
static_assert(sizeof(ValueHeadSmem) % 256 == 0);

struct PrepareSmem {
  std::byte q[rowsBytes], k[rowsBytes];
  ValueHeadSmem heads[maxGroups]; ///< as many as there are
};

QWEN_DEVICE int warpOfHead() { return threadIdx.x % 128 / 32; }
QWEN_DEVICE void syncHead() { namedSync(1 + threadIdx.x / 128, 128); }

struct Item {
  ChunkEntry chunk;
  int index, keyHead; ///< of the chunk in the pack
};

/// Rows of one operand in the registers of a block of `groups` warpgroups; 16
/// lanes a row.
template <int groups> struct RawRows {
  static constexpr int rowsAtOnce = 8 * groups;
  static constexpr int passes = (chunkSize + rowsAtOnce - 1) / rowsAtOnce;
  uint4 pieces[passes];

  QWEN_DEVICE static int row(int pass) {
    return threadIdx.x / 16 + pass * rowsAtOnce;
  }
  QWEN_DEVICE void load(const HeadRows<const Bf16> &from, const Item &item) {
    const Bf16 *first =
        from.row(item.chunk.token, item.keyHead) + threadIdx.x % 16 * 8;
#pragma unroll
    for (int i = 0; i < passes; ++i)
      pieces[i] = row(i) < item.chunk.rows
                      ? *reinterpret_cast<const uint4 *>(
                            first + row(i) * from.tokenStride)
                      : uint4{};
  }
};

/// Fetches q and k of an item into the L2 cache.
QWEN_DEVICE void prefetchRows(const PrepareOperands &operands,
                              const Item &item) {
  constexpr int lines = 2; // of 128 bytes a row
  for (int i = threadIdx.x; i < 2 * lines * chunkSize; i += blockDim.x) {
    int row = i / 2 / lines, line = i / 2 % lines;
    const Bf16 *q = operands.q.row(item.chunk.token + row, item.keyHead);
    const Bf16 *k = operands.k.row(item.chunk.token + row, item.keyHead);
    if (row < item.chunk.rows)
      asm volatile(
          "prefetch.global.L2 [%0];" ::"l"((i % 2 ? q : k) + 64 * line));
  }
}

/// Normalises the rows into their tile and their image.
template <int groups>
QWEN_DEVICE void normalise(const RawRows<groups> &raw, float eps,
                           std::byte *tile, std::byte *image, float *scales) {
#pragma unroll
  for (int i = 0; i < RawRows<groups>::passes; ++i) {
    int row = raw.row(i);
    uint32_t words[4] = {raw.pieces[i].x, raw.pieces[i].y, raw.pieces[i].z,
                         raw.pieces[i].w};
    float squares = 0;
#pragma unroll
    for (uint32_t word : words)
      squares +=
          lowBf16(word) * lowBf16(word) + highBf16(word) * highBf16(word);
    for (int step = 8; step > 0; step /= 2)
      squares += __shfl_xor_sync(~0u, squares, step);
    float scale = rsqrtf(squares + eps);
#pragma unroll
    for (uint32_t &word : words)
      word = packBf16(scale * lowBf16(word), scale * highBf16(word));
    if (row >= chunkSize)
      continue;
    uint4 packed = {words[0], words[1], words[2], words[3]};
    uint32_t offset = tileOffset(row, threadIdx.x % 16 * 8, panelBytes);
    *reinterpret_cast<uint4 *>(tile + offset) = packed;
    *reinterpret_cast<uint4 *>(image + offset) = packed;
    if (scales && threadIdx.x % 16 == 0)
      scales[row] = scale;
  }
}

/// Gates of one value head in one warp; a lane has two rows.
struct RawGates {
  float g[2], beta[2];

  QWEN_DEVICE void load(const PrepareOperands &operands, const Item &item,
                        int valueHead) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      int row = threadIdx.x % 32 * 2 + i;
      bool valid = row < item.chunk.rows;
      int64_t token = item.chunk.token + row;
      g[i] = valid ? *operands.g.row(token, valueHead) : 0;
      beta[i] =
          valid ? __bfloat162float(*operands.beta.row(token, valueHead)) : 0;
    }
  }

  /// Writes the gates to both places.
  QWEN_DEVICE void form(GateVectors &smem, GateVectors &global) const {
    int lane = threadIdx.x % 32;
    float sum = log2e * g[0] + log2e * g[1];
    for (int step = 1; step < 32; step *= 2) {
      float other = __shfl_up_sync(~0u, sum, step);
      sum += lane >= step ? other : 0;
    }
    float before = __shfl_up_sync(~0u, sum, 1);
    float total = __shfl_sync(~0u, sum, 31);
    float prefix[2] = {(lane > 0 ? before : 0) + log2e * g[0], sum};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      int row = 2 * lane + i;
      float fromStart = exp2Fast(fminf(prefix[i], 0));
      float toEnd = exp2Fast(fminf(total - prefix[i], 0));
      for (GateVectors *gates : {&smem, &global}) {
        gates->fromStart[row] = fromStart;
        gates->toEnd[row] = toEnd;
        gates->beta[row] = beta[i];
        gates->g[row] = prefix[i];
      }
    }
  }
};

/// L_ij = beta_i (k k^T)_ij below the diagonal; nobody reads blocks above it.
__device__ void formLower(ValueHeadSmem &smem, const float (&kk)[32]) {
  int warp = uniform(warpOfHead()), lane = threadIdx.x % 32;
  int row = lane / 4;
  float beta[2] = {smem.gates.beta[16 * warp + row],
                   smem.gates.beta[16 * warp + row + 8]};
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    if (j / 2 > warp)
      continue;
    int column = 8 * j + lane % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int i = 4 * j + 2 * half, r = row + 8 * half;
      float low = beta[half] * kk[i], high = beta[half] * kk[i + 1];
      if (j / 2 < warp)
        *reinterpret_cast<__half2 *>(&smem.lower[16 * warp + r][column]) =
            __floats2half2_rn(low, high);
      else
        *reinterpret_cast<float2 *>(&smem.diagonal[warp][r][column % 16]) = {
            column % 16 < r ? low : 0, column % 16 + 1 < r ? high : 0};
    }
  }
}

/// Inverse of this warp's diagonal block; a lane has one column.
__device__ void invertDiagonal(ValueHeadSmem &smem) {
  int warp = warpOfHead(), column = threadIdx.x % 16;
  float x[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    x[i] = i == column ? 1 : 0;
#pragma unroll
    for (int j = 0; j < i; j += 4) {
      float4 row =
          *reinterpret_cast<const float4 *>(&smem.diagonal[warp][i][j]);
      x[i] -= row.x * x[j];
      x[i] -= j + 1 < i ? row.y * x[j + 1] : 0;
      x[i] -= j + 2 < i ? row.z * x[j + 2] : 0;
      x[i] -= j + 3 < i ? row.w * x[j + 3] : 0;
    }
  }
  if (threadIdx.x % 32 < 16)
#pragma unroll
    for (int i = 0; i < 16; ++i)
      smem.inverse[16 * warp + i][16 * warp + column] = __float2half_rn(x[i]);
}

QWEN_DEVICE void mmaF16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                        uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

QWEN_DEVICE uint32_t packHalf(float low, float high) {
  __half2 packed = __floats2half2_rn(low, high);
  return *reinterpret_cast<uint32_t *>(&packed);
}

/// Row that a lane names to load block (i, j) of a padded f16 matrix.
QWEN_DEVICE SmemAddr blockRow(const __half (&matrix)[chunkSize][padded72],
                              int i, int j) {
  int lane = threadIdx.x % 32, part = lane / 8;
  return smemAddress(
      &matrix[16 * i + 8 * (part / 2) + lane % 8][16 * j + 8 * (part % 2)]);
}

/// Block (i, j) of the inverse, i > j, by one warp, everything transposed.
__device__ void invertBlock(ValueHeadSmem &smem, int i, int j) {
  float sum[2][4] = {}, block[2][4] = {};
  for (int k = j; k < i; ++k) {
    uint32_t a[4], b[4];
    loadMatricesTransposed(a, blockRow(smem.inverse, k, j));
    loadMatrices(b, blockRow(smem.lower, i, k));
    mmaF16(sum[0], a, b[0], b[1]);
    mmaF16(sum[1], a, b[2], b[3]);
  }
  uint32_t a[4] = {
      packHalf(sum[0][0], sum[0][1]), packHalf(sum[0][2], sum[0][3]),
      packHalf(sum[1][0], sum[1][1]), packHalf(sum[1][2], sum[1][3])};
  uint32_t b[4];
  loadMatrices(b, blockRow(smem.inverse, i, i));
  mmaF16(block[0], a, b[0], b[1]);
  mmaF16(block[1], a, b[2], b[3]);
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < 2; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e)
      smem.inverse[16 * i + 8 * n + lane % 4 * 2 + e % 2]
                  [16 * j + lane / 4 + e / 2 * 8] =
          __float2half_rn(-block[n][e]);
}

/// Fragments of A, the inverse with decays, and of P.
QWEN_DEVICE void formSquares(const ValueHeadSmem &smem, const float (&qk)[32],
                             float scale, uint32_t (&a)[4][4],
                             uint32_t (&p)[4][4]) {
  int warp = uniform(warpOfHead());
  int row = 16 * warp + threadIdx.x % 32 / 4;
  const float *g = smem.gates.g;
  float gRow[2] = {g[row], g[row + 8]};
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    int column = 8 * j + threadIdx.x % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t &aPair = a[j / 2][j % 2 * 2 + half];
      uint32_t &pPair = p[j / 2][j % 2 * 2 + half];
      aPair = pPair = 0;
      // Blocks of the inverse above the diagonal hold nothing.
      if (j / 2 > warp)
        continue;
      float2 gColumn = *reinterpret_cast<const float2 *>(g + column);
      int i = 4 * j + 2 * half, r = row + 8 * half;
      float low = exp2Fast(fminf(gRow[half] - gColumn.x, 0));
      float high = exp2Fast(fminf(gRow[half] - gColumn.y, 0));
      if (j / 2 == warp) {
        low = column <= r ? low : 0;
        high = column + 1 <= r ? high : 0;
      }
      float2 inverse = __half22float2(
          *reinterpret_cast<const __half2 *>(&smem.inverse[r][column]));
      aPair = packBf16(inverse.x * low, inverse.y * high);
      pPair = packBf16(scale * qk[i] * low, scale * qk[i + 1] * high);
    }
  }
}

/// Sends A and P on their way through the place of L and of the inverse.
QWEN_DEVICE void sendSquares(ValueHeadSmem &smem, const uint32_t (&a)[4][4],
                             const uint32_t (&p)[4][4], std::byte *system,
                             std::byte *attended) {
  syncHead(); // the inverse has been read
  storeFragments(a, smemAddress(smem.lower), squareBytes);
  storeFragments(p, smemAddress(smem.inverse), squareBytes);
  fenceProxyAsync();
  syncHead();
  if (threadIdx.x % 128 == 0) {
    bulkStore(system, smemAddress(smem.lower), squareBytes);
    bulkStore(attended, smemAddress(smem.inverse), squareBytes);
    bulkStoreCommit();
  }
}

/// A and P of one value head, by its warpgroup.
__device__ void prepareHead(PrepareSmem &shared, ValueHeadSmem &smem,
                            const GatedDeltaBuffers &buffers, int64_t slot,
                            float scale) {
  Operand<Major::K> q(smemAddress(shared.q), panelBytes);
  Operand<Major::K> k(smemAddress(shared.k), panelBytes);
  float products[32];
  wgmmaFence();
  product<64, 8>(products, k, k, false);
  wgmmaCommit();
  wgmmaWait<0>();
  holdRegisters(products);
  formLower(smem, products);
  wgmmaFence();
  product<64, 8>(products, q, k, false);
  wgmmaCommit();
  __syncwarp();
  invertDiagonal(smem); // of this warp's rows
  wgmmaWait<0>();
  holdRegisters(products);
  syncHead();
  int warp = warpOfHead();
  for (int distance = 1; distance < 4; ++distance) {
    if (warp + distance < 4)
      invertBlock(smem, warp + distance, warp);
    syncHead();
  }
  uint32_t a[4][4], p[4][4];
  formSquares(smem, products, scale, a, p);
  sendSquares(smem, a, p, buffers.system + slot * squareBytes,
              buffers.attended + slot * squareBytes);
}

template <int groups>
__global__ void __launch_bounds__(groups * 128, groups == 1   ? 4
                                                : groups == 4 ? 1
                                                              : 2)
    prepare(GatedDeltaSizes sizes, GatedDeltaBuffers buffers,
            PrepareOperands operands, bool keepNorms) {
  extern __shared__ __align__(1024) std::byte raw[];
  PrepareSmem &smem = *reinterpret_cast<PrepareSmem *>(raw);
  int items = buffers.header->chunks * sizes.keyHeads;
  int group = warpgroupIndex();
  bool hasGates = uniform(warpOfHead()) == 0;
  auto itemAt = [&](int i) {
    return Item{buffers.chunks[i / sizes.keyHeads], i / sizes.keyHeads,
                i % sizes.keyHeads};
  };
  if (int(blockIdx.x) >= items)
    return;
  Item next = itemAt(blockIdx.x);
  for (int i = blockIdx.x; i < items; i += gridDim.x) {
    Item item = next;
    int valueHead = item.keyHead * groups + group;
    int64_t slot = int64_t(item.index) * sizes.valueHeads + valueHead;
    int64_t at = i;
    RawRows<groups> q, k;
    RawGates gates;
    q.load(operands.q, item);
    k.load(operands.k, item);
    if (hasGates)
      gates.load(operands, item, valueHead);
    next = itemAt(min(i + int(gridDim.x), items - 1));
    if (threadIdx.x % 128 == 0)
      bulkStoreWaitRead();
    __syncthreads(); // the item before is done with the tiles
    if (hasGates)
      gates.form(smem.heads[group].gates, buffers.gates[slot]);
    normalise(q, operands.eps, smem.q, buffers.q + at * rowsBytes,
              keepNorms ? buffers.qScale + at * chunkSize : nullptr);
    normalise(k, operands.eps, smem.k, buffers.k + at * rowsBytes,
              keepNorms ? buffers.kScale + at * chunkSize : nullptr);
    prefetchRows(operands, next);
    fenceProxyAsync();
    __syncthreads();
    prepareHead(smem, smem.heads[group], buffers, slot, operands.scale);
  }
  if (threadIdx.x % 128 == 0)
    bulkStoreWait();
}

template <int groups>
cudaError_t
enqueue(const GatedDeltaSizes &sizes, const GatedDeltaBuffers &buffers,
        const PrepareOperands &operands, bool keepNorms, cudaStream_t stream) {
  int bytes = 2 * rowsBytes + groups * sizeof(ValueHeadSmem);
  cudaError_t error = cudaFuncSetAttribute(
      prepare<groups>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  int perProcessor = 0;
  if (error == cudaSuccess)
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &perProcessor, prepare<groups>, groups * 128, bytes);
  if (error != cudaSuccess)
    return error;
  prepare<groups>
      <<<perProcessor * multiprocessors(), groups * 128, bytes, stream>>>(
          sizes, buffers, operands, keepNorms);
  return cudaGetLastError();
}

} // namespace

cudaError_t qwen::cuda::enqueuePrepare(const GatedDeltaSizes &sizes,
                                       const GatedDeltaBuffers &buffers,
                                       const PrepareOperands &operands,
                                       bool keepNorms, cudaStream_t stream) {
  switch (sizes.groups) {
  case 1:
    return enqueue<1>(sizes, buffers, operands, keepNorms, stream);
  case 2:
    return enqueue<2>(sizes, buffers, operands, keepNorms, stream);
  case 3:
    return enqueue<3>(sizes, buffers, operands, keepNorms, stream);
  case 4:
    return enqueue<4>(sizes, buffers, operands, keepNorms, stream);
  }
  return cudaErrorInvalidValue;
}
