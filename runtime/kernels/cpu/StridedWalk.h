//===- StridedWalk.h - Elements of strided views ---------------*- C++ -*-===//
//
// Walks one or two views of the same shape on all threads, row by row.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CPU_STRIDEDWALK_H
#define QWEN_RUNTIME_KERNELS_CPU_STRIDEDWALK_H

#include "Parallel.h"

namespace qwen::cpu {

/// A view as rows of equal length; a contiguous view is one long row.
struct RowView {
  int64_t shape[maxRank] = {1, 1, 1, 1};
  int64_t strides[maxRank] = {};

  RowView(const BufferType &type, bool flatten) {
    if (flatten) {
      shape[maxRank - 1] = type.elements();
      strides[maxRank - 1] = 1;
      return;
    }
    for (int i = 0; i < type.rank; ++i) {
      shape[maxRank - type.rank + i] = type.shape[i];
      strides[maxRank - type.rank + i] = type.strides[i];
    }
  }
  int64_t rows() const { return shape[0] * shape[1] * shape[2]; }
  int64_t columns() const { return shape[3]; }
  int64_t columnStride() const { return strides[3]; }
  /// Element offset of a row.
  int64_t offset(int64_t row) const {
    return row / (shape[1] * shape[2]) * strides[0] +
           row / shape[2] % shape[1] * strides[1] + row % shape[2] * strides[2];
  }
};

/// Calls body(offset of x, offset of y, count) for pieces of rows; element i of
/// a piece lies i columnStride() further.
template <typename F>
void walkRows(const RowView &x, const RowView &y, F &&body) {
  constexpr int64_t piece = 16384;
  int64_t pieces = ceilDiv(x.columns(), piece);
  int64_t rowsAtOnce = std::max<int64_t>(1, piece / x.columns());
  parallelBlocks(x.rows() * pieces, rowsAtOnce,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     int64_t first = i % pieces * piece;
                     body(x.offset(i / pieces) + first * x.columnStride(),
                          y.offset(i / pieces) + first * y.columnStride(),
                          std::min(piece, x.columns() - first));
                   }
                 });
}

} // namespace qwen::cpu

#endif // QWEN_RUNTIME_KERNELS_CPU_STRIDEDWALK_H
