//===- StridedRows.cuh - Views as rows of equal units ----------*- CUDA -*-===//
//
// Brings one or two views of a shape to the fewest dimensions and the widest
// unit that divides rows, strides and addresses; fill and copy then move units.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_STRIDEDROWS_CUH
#define QWEN_RUNTIME_KERNELS_CUDA_STRIDEDROWS_CUH

#include "RowKernels.h"
#include "Vectors.cuh"

#include <algorithm>

namespace qwen::cuda {

/// Two views (the same one twice for a fill), sizes and strides in units.
struct StridedRows {
  int64_t shape[maxRank] = {1, 1, 1, 1};
  int64_t from[maxRank] = {}, to[maxRank] = {};
  int unitBytes = 0;

  StridedRows(const BufferType &in, const void *source, const BufferType &out,
              const void *target)
      : unitBytes(int(dtypeBytes(out.dtype))) {
    merge(in, out);
    int64_t &columns = shape[maxRank - 1];
    int64_t &fromStep = from[maxRank - 1], &toStep = to[maxRank - 1];
    bool dense = columns == 1 || (fromStep == 1 && toStep == 1);
    uint64_t offsets = uint64_t(columns) |
                       uint64_t(address(source)) / unitBytes |
                       uint64_t(address(target)) / unitBytes;
    for (int d = 0; d < maxRank - 1; ++d)
      offsets |= shape[d] > 1 ? uint64_t(from[d]) | uint64_t(to[d]) : 0;
    for (; dense && unitBytes < 16 && offsets % 2 == 0; offsets /= 2) {
      unitBytes *= 2;
      columns /= 2;
      for (int d = 0; d < maxRank - 1; ++d) {
        from[d] /= 2;
        to[d] /= 2;
      }
    }
  }
  __host__ __device__ int64_t rows() const {
    return shape[0] * shape[1] * shape[2];
  }

  /// Unit offset of a row under strides.
  QWEN_DEVICE int64_t offset(int64_t row, const int64_t (&strides)[4]) const {
    return row / (shape[1] * shape[2]) * strides[0] +
           row / shape[2] % shape[1] * strides[1] + row % shape[2] * strides[2];
  }

private:
  static uintptr_t address(const void *pointer) {
    return reinterpret_cast<uintptr_t>(pointer);
  }
  /// Dimensions from the innermost on; one that continues the last joins it.
  void merge(const BufferType &in, const BufferType &out) {
    int last = maxRank;
    for (int i = out.rank - 1; i >= 0; --i) {
      if (out.shape[i] == 1)
        continue;
      if (last < maxRank && in.strides[i] == from[last] * shape[last] &&
          out.strides[i] == to[last] * shape[last]) {
        shape[last] *= out.shape[i];
        continue;
      }
      --last;
      shape[last] = out.shape[i];
      from[last] = in.strides[i];
      to[last] = out.strides[i];
    }
    // A scalar is one row of one element.
    if (last == maxRank)
      from[maxRank - 1] = to[maxRank - 1] = 1;
  }
};

inline constexpr int rowThreads = 256;
inline constexpr int rowBatch = 4; ///< units of a thread in flight together

/// How blocks cover the rows: `lanes` threads side by side, a power of two.
struct RowTiling {
  int lanesLog2 = 0;
  int64_t chunks; ///< blocks side by side

  explicit RowTiling(const StridedRows &rows) {
    while ((rowBatch << lanesLog2) < rows.shape[maxRank - 1] &&
           (1 << lanesLog2) < rowThreads)
      ++lanesLog2;
    chunks = ceilDiv(rows.shape[maxRank - 1], int64_t(rowBatch) << lanesLog2);
  }
  int64_t blocks(const StridedRows &rows) const {
    return ceilDiv(rows.rows(), rowThreads >> lanesLog2) * chunks;
  }
  QWEN_DEVICE int64_t row() const {
    return blockIdx.x / chunks * (rowThreads >> lanesLog2) +
           (threadIdx.x >> lanesLog2);
  }
  QWEN_DEVICE int64_t column(int k) const {
    int lane = threadIdx.x & ((1 << lanesLog2) - 1);
    return ((blockIdx.x % chunks * rowBatch + k) << lanesLog2) + lane;
  }
};

/// Calls body with a value of the unit's type.
template <typename F> cudaError_t withUnit(int unitBytes, F &&body) {
  switch (unitBytes) {
  case 2:
    return body(uint16_t{});
  case 4:
    return body(uint32_t{});
  case 8:
    return body(uint2{});
  default:
    return body(uint4{});
  }
}

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_STRIDEDROWS_CUH
