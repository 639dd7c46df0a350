//===- GatedDeltaPrepare.cu - What does not depend on the state -*- CUDA
//-*-===//
//
// One piece of work is a chunk of a key head: normalised q and k, and for each
// of its value heads the gates and the matrices A and P of GatedDeltaParts.cuh.
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

constexpr int threads = 128;
constexpr int padded72 = 72; ///< row of a 64-wide f16 matrix without conflicts
constexpr float log2e = 1.4426950408889634f;

struct PrepareSmem {
  std::byte q[rowsBytes], k[rowsBytes];
  std::byte system[squareBytes], attended[squareBytes];
  __half lower[chunkSize][padded72], inverse[chunkSize][padded72];
  float diagonal[4][16][16];
  GateVectors gates[maxGroups];
};

struct Item {
  ChunkEntry chunk;
  int index, keyHead; ///< of the chunk in the pack
};

/// Normalises the rows of one operand into its tile and its image.
__device__ void normalise(const HeadRows<const Bf16> &from, const Item &item,
                          float eps, std::byte *tile, std::byte *image,
                          float *scales) {
  int piece = threadIdx.x % 16;
  uint4 raw[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    int row = threadIdx.x / 16 + 8 * i;
    raw[i] =
        row < item.chunk.rows
            ? *reinterpret_cast<const uint4 *>(
                  from.row(item.chunk.token + row, item.keyHead) + 8 * piece)
            : uint4{};
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    int row = threadIdx.x / 16 + 8 * i;
    uint32_t words[4] = {raw[i].x, raw[i].y, raw[i].z, raw[i].w};
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
    uint4 packed = {words[0], words[1], words[2], words[3]};
    uint32_t offset = tileOffset(row, 8 * piece, panelBytes);
    *reinterpret_cast<uint4 *>(tile + offset) = packed;
    *reinterpret_cast<uint4 *>(image + offset) = packed;
    if (scales && piece == 0)
      scales[row] = scale;
  }
}

/// Gates of one value head, by one warp; a lane has two rows.
__device__ void formGates(const PrepareOperands &operands, const Item &item,
                          int valueHead, GateVectors &smem,
                          GateVectors &global) {
  int lane = threadIdx.x % 32;
  float g[2], beta[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    int row = 2 * lane + i;
    bool valid = row < item.chunk.rows;
    int64_t token = item.chunk.token + row;
    g[i] = valid ? *operands.g.row(token, valueHead) * log2e : 0;
    beta[i] =
        valid ? __bfloat162float(*operands.beta.row(token, valueHead)) : 0;
  }
  float sum = g[0] + g[1];
  for (int step = 1; step < 32; step *= 2) {
    float other = __shfl_up_sync(~0u, sum, step);
    sum += lane >= step ? other : 0;
  }
  float before = __shfl_up_sync(~0u, sum, 1);
  float total = __shfl_sync(~0u, sum, 31);
  float prefix[2] = {(lane > 0 ? before : 0) + g[0], sum};
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

/// L_ij = beta_i (k k^T)_ij below the diagonal.
__device__ void formLower(PrepareSmem &smem, const float (&kk)[32],
                          const float *beta) {
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 32; i += 2) {
    int row = 16 * warp + lane / 4 + i / 2 % 2 * 8;
    int column = i / 4 * 8 + lane % 4 * 2;
    float low = column < row ? beta[row] * kk[i] : 0;
    float high = column + 1 < row ? beta[row] * kk[i + 1] : 0;
    *reinterpret_cast<__half2 *>(&smem.lower[row][column]) =
        __floats2half2_rn(low, high);
    if (i / 8 == warp)
      *reinterpret_cast<float2 *>(
          &smem.diagonal[warp][row % 16][column % 16]) = {low, high};
  }
}

/// Inverse of this warp's diagonal block; a lane has one column.
__device__ void invertDiagonal(PrepareSmem &smem) {
  int warp = threadIdx.x / 32, column = threadIdx.x % 16;
  float x[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    x[i] = i == column ? 1 : 0;
#pragma unroll
    for (int j = 0; j < i; ++j)
      x[i] -= smem.diagonal[warp][i][j] * x[j];
    if (threadIdx.x % 32 < 16)
      smem.inverse[16 * warp + i][16 * warp + column] = __float2half_rn(x[i]);
  }
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
__device__ void invertBlock(PrepareSmem &smem, int i, int j) {
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

QWEN_DEVICE float decay(const float *g, int row, int column) {
  return column <= row ? exp2Fast(fminf(g[row] - g[column], 0)) : 0.f;
}

/// The inverse with decays, as the tile of A.
__device__ void writeSystem(PrepareSmem &smem, const float *g) {
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    int row = threadIdx.x / 8 + 16 * n, first = threadIdx.x % 8 * 8;
    uint4 raw = *reinterpret_cast<const uint4 *>(&smem.inverse[row][first]);
    const __half2 *pairs = reinterpret_cast<const __half2 *>(&raw);
    uint32_t words[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      int column = first + 2 * e;
      float2 pair = __half22float2(pairs[e]);
      // Blocks above the diagonal hold nothing.
      words[e] = packBf16(column <= row ? pair.x * decay(g, row, column) : 0.f,
                          column + 1 <= row ? pair.y * decay(g, row, column + 1)
                                            : 0.f);
    }
    *reinterpret_cast<uint4 *>(smem.system + swizzled(row, first)) = {
        words[0], words[1], words[2], words[3]};
  }
}

__device__ void writeAttended(PrepareSmem &smem, const float (&qk)[32],
                              const float *g, float scale) {
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float p[32];
  uint32_t packed[4][4];
#pragma unroll
  for (int i = 0; i < 32; ++i)
    p[i] = scale * qk[i] *
           decay(g, 16 * warp + lane / 4 + i / 2 % 2 * 8,
                 i / 4 * 8 + lane % 4 * 2 + i % 2);
  packAccumulator(packed, p);
  storeFragments(packed, smemAddress(smem.attended), squareBytes);
}

/// A and P of one value head, in order; every thread of the block.
__device__ void valueHead(PrepareSmem &smem, const GatedDeltaBuffers &scratch,
                          int64_t slot, const GateVectors &gates,
                          const float (&qk)[32], const float (&kk)[32],
                          float scale) {
  formLower(smem, kk, gates.beta);
  if (threadIdx.x == 0)
    bulkStoreWaitRead();
  __syncthreads();
  invertDiagonal(smem);
  writeAttended(smem, qk, gates.g, scale);
  __syncthreads();
  int warp = threadIdx.x / 32;
  for (int distance = 1; distance < 4; ++distance) {
    if (warp + distance < 4)
      invertBlock(smem, warp + distance, warp);
    __syncthreads();
  }
  writeSystem(smem, gates.g);
  fenceProxyAsync();
  __syncthreads();
  if (threadIdx.x == 0) {
    bulkStore(scratch.system + slot * squareBytes, smemAddress(smem.system),
              squareBytes);
    bulkStore(scratch.attended + slot * squareBytes, smemAddress(smem.attended),
              squareBytes);
    bulkStoreCommit();
  }
}

__global__ void __launch_bounds__(threads, 2)
    prepare(GatedDeltaSizes sizes, GatedDeltaBuffers scratch,
            PrepareOperands operands, bool keepNorms) {
  extern __shared__ __align__(1024) std::byte raw[];
  PrepareSmem &smem = *reinterpret_cast<PrepareSmem *>(raw);
  int items = scratch.header->chunks * sizes.keyHeads;
  for (int i = blockIdx.x; i < items; i += gridDim.x) {
    Item item;
    item.index = i / sizes.keyHeads;
    item.keyHead = i % sizes.keyHeads;
    item.chunk = scratch.chunks[item.index];
    __syncthreads();
    int64_t firstSlot =
        int64_t(item.index) * sizes.valueHeads + item.keyHead * sizes.groups;
    for (int group = threadIdx.x / 32; group < sizes.groups; group += 4)
      formGates(operands, item, item.keyHead * sizes.groups + group,
                smem.gates[group], scratch.gates[firstSlot + group]);
    int64_t at = i;
    normalise(operands.q, item, operands.eps, smem.q,
              scratch.q + at * rowsBytes,
              keepNorms ? scratch.qScale + at * chunkSize : nullptr);
    normalise(operands.k, item, operands.eps, smem.k,
              scratch.k + at * rowsBytes,
              keepNorms ? scratch.kScale + at * chunkSize : nullptr);
    fenceProxyAsync();
    __syncthreads();
    float qk[32], kk[32];
    Operand<Major::K> q(smemAddress(smem.q), panelBytes);
    Operand<Major::K> k(smemAddress(smem.k), panelBytes);
    wgmmaFence();
    product<64, 8>(kk, k, k, false);
    product<64, 8>(qk, q, k, false);
    wgmmaCommit();
    wgmmaWait<0>();
    holdRegisters(kk);
    holdRegisters(qk);
    for (int group = 0; group < sizes.groups; ++group)
      valueHead(smem, scratch, firstSlot + group, smem.gates[group], qk, kk,
                operands.scale);
  }
  if (threadIdx.x == 0)
    bulkStoreWait();
}

} // namespace

cudaError_t qwen::cuda::enqueuePrepare(const GatedDeltaSizes &sizes,
                                       const GatedDeltaBuffers &scratch,
                                       const PrepareOperands &operands,
                                       bool keepNorms, cudaStream_t stream) {
  cudaError_t error =
      cudaFuncSetAttribute(prepare, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           sizeof(PrepareSmem));
  if (error != cudaSuccess)
    return error;
  prepare<<<3 * multiprocessors(), threads, sizeof(PrepareSmem), stream>>>(
      sizes, scratch, operands, keepNorms);
  return cudaGetLastError();
}
