//===- GatedDeltaScan.cuh - Frame of the scans over chunks -----*- CUDA -*-===//
//
// A scan walks the chunks of one document and value head in order. A block has
// two warpgroups, each with 64 of the 128 v rows of the transposed state in
// registers, and a third that fetches pieces of work and loads the chunks'
// tiles ahead through a ring of stages. Every product of the chain has its A
// operand in registers, the accumulator of the product before; the warpgroups
// never wait for each other.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_GATEDDELTASCAN_CUH
#define QWEN_RUNTIME_KERNELS_CUDA_GATEDDELTASCAN_CUH

#include "GatedDeltaParts.cuh"

namespace qwen::cuda {

inline constexpr int scanThreads = 3 * 128;
// 168 registers a thread at the start, moved from the loader to the others.
inline constexpr int scanRegisters = 216, loaderRegisters = 72;

/// What a stage holds beside its tiles.
struct StageInfo {
  ChunkEntry chunk;
  int index, valueHead; ///< of the chunk in the pack
  int isEnd;            ///< no more work
  int unused;
};

/// One stage of the ring; unused tiles are left out of the layout by order.
struct StageTiles {
  std::byte k[rowsBytes];
  std::byte rows[rowsBytes]; ///< v or dout
  std::byte system[squareBytes];
  GateVectors gates;
};
struct StageTilesWithQ : StageTiles {
  std::byte q[rowsBytes];
  std::byte attended[squareBytes];
};

template <typename Tiles, int count> struct Ring {
  static constexpr bool hasQ = sizeof(Tiles) > sizeof(StageTiles);
  /// Bytes of the bulk copies: all but the rows.
  static constexpr uint32_t bytes = sizeof(Tiles) - rowsBytes;
  Tiles tiles[count];
  StageInfo info[count];
  int item; ///< what the loader works on
  uint64_t full[count], empty[count];

  /// By one thread.
  QWEN_DEVICE void init() {
    for (int i = 0; i < count; ++i) {
      barrierInit(smemAddress(&full[i]), 1 + 128);
      barrierInit(smemAddress(&empty[i]), 8 * warpArrivals);
    }
    barrierInitFence();
  }
};

/// Place in a ring.
template <int count> struct RingPlace {
  int stage = 0;
  uint32_t phase = 0;
  QWEN_DEVICE void advance() {
    if (++stage == count) {
      stage = 0;
      phase ^= 1;
    }
  }
};

/// Loads one chunk; the whole warpgroup.
template <typename Tiles, int count>
QWEN_DEVICE void loadStage(Ring<Tiles, count> &ring, int stage,
                           const StageInfo &info, const GatedDeltaSizes &sizes,
                           const GatedDeltaBuffers &buffers,
                           const HeadRows<const Bf16> &rows) {
  Tiles &tiles = ring.tiles[stage];
  SmemAddr full = smemAddress(&ring.full[stage]);
  int thread = threadIdx.x % 128;
  if (thread == 0) {
    ring.info[stage] = info;
    barrierArriveExpect(full, Ring<Tiles, count>::bytes);
    int64_t key =
        int64_t(info.index) * sizes.keyHeads + info.valueHead / sizes.groups;
    int64_t value = int64_t(info.index) * sizes.valueHeads + info.valueHead;
    bulkLoad(smemAddress(tiles.k), buffers.k + key * rowsBytes, rowsBytes,
             full);
    bulkLoad(smemAddress(&tiles.gates), buffers.gates + value, vectorBytes,
             full);
    bulkLoad(smemAddress(tiles.system), buffers.system + value * squareBytes,
             squareBytes, full);
    if constexpr (Ring<Tiles, count>::hasQ) {
      bulkLoad(smemAddress(tiles.q), buffers.q + key * rowsBytes, rowsBytes,
               full);
      bulkLoad(smemAddress(tiles.attended),
               buffers.attended + value * squareBytes, squareBytes, full);
    }
  }
  SmemAddr tile = smemAddress(tiles.rows);
  int column = thread % 16 * 8;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    int row = thread / 16 + 8 * i;
    bool valid = row < info.chunk.rows;
    copyOrZero(tile + tileOffset(row, column, panelBytes),
               rows.row(info.chunk.token + (valid ? row : 0), info.valueHead) +
                   column,
               valid);
  }
  copyArrive(full);
}

/// The loading warpgroup: takes documents and value heads from `next` until
/// there are none, chunks in falling order where `isReverse`.
template <bool isReverse, typename Tiles, int count>
QWEN_DEVICE void loadScan(Ring<Tiles, count> &ring,
                          const GatedDeltaSizes &sizes,
                          const GatedDeltaBuffers &buffers,
                          const HeadRows<const Bf16> &rows, int *next) {
  RingPlace<count> place;
  int items = buffers.header->documents * sizes.valueHeads;
  for (;;) {
    if (threadIdx.x % 128 == 0)
      ring.item = atomicAdd(next, 1);
    namedSync(3, 128);
    int item = ring.item;
    namedSync(3, 128);
    if (item >= items)
      break;
    DocumentEntry document = buffers.sorted[item / sizes.valueHeads];
    for (int i = 0; i < document.chunks; ++i) {
      int chunk = isReverse ? document.chunks - 1 - i : i;
      StageInfo info = {{document.token + chunk * chunkSize,
                         min(chunkSize, document.length - chunk * chunkSize),
                         chunk == 0, chunk + 1 == document.chunks},
                        document.chunk + chunk,
                        item % sizes.valueHeads,
                        0,
                        0};
      barrierWait(smemAddress(&ring.empty[place.stage]), place.phase ^ 1);
      loadStage(ring, place.stage, info, sizes, buffers, rows);
      place.advance();
    }
  }
  barrierWait(smemAddress(&ring.empty[place.stage]), place.phase ^ 1);
  if (threadIdx.x % 128 == 0) {
    ring.info[place.stage].isEnd = 1;
    barrierArrive(smemAddress(&ring.full[place.stage]));
  }
  copyArrive(smemAddress(&ring.full[place.stage]));
}

/// Writes [64 tokens, 64] of a tile's panel to this warpgroup's half of the
/// rows of a head.
QWEN_DEVICE void writeRows(const std::byte *panel, const HeadRows<Bf16> &out,
                           const StageInfo &info, int half) {
  int thread = threadIdx.x % 128;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int row = thread / 8 + 16 * i, column = thread % 8 * 8;
    if (row < info.chunk.rows)
      *reinterpret_cast<uint4 *>(
          out.row(info.chunk.token + row, info.valueHead) + 64 * half +
          column) =
          *reinterpret_cast<const uint4 *>(panel + swizzled(row, column));
  }
}

/// Half a state [64 v, 128 k] to its image, by one thread.
QWEN_DEVICE void sendState(const std::byte *tile, std::byte *image, int half) {
  for (int panel = 0; panel < 2; ++panel)
    bulkStore(image + panel * statePanelBytes + half * panelBytes,
              smemAddress(tile) + panel * panelBytes, panelBytes);
}

QWEN_DEVICE int64_t slotOf(const StageInfo &info, int valueHeads) {
  return int64_t(info.index) * valueHeads + info.valueHead;
}

/// Columns 8 j + 2 (lane % 4) and the next of a gate vector.
QWEN_DEVICE float2 columnPair(const float *vector, int j) {
  return *reinterpret_cast<const float2 *>(vector + 8 * j +
                                           threadIdx.x % 4 * 2);
}

/// d[:, t] *= factor * vector[t] for an accumulator of 64 columns.
QWEN_DEVICE void scaleColumns(float (&d)[32], const float *vector,
                              float factor) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    float2 scale = columnPair(vector, j);
    d[4 * j] *= factor * scale.x;
    d[4 * j + 1] *= factor * scale.y;
    d[4 * j + 2] *= factor * scale.x;
    d[4 * j + 3] *= factor * scale.y;
  }
}

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_GATEDDELTASCAN_CUH
