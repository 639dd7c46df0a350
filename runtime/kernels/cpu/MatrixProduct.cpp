//===- MatrixProduct.cpp - Large matrix products on all threads -*- C++ -*-===//
//
// A tile of c is summed over k in steps: pack a step of op(a) and of op(b)
// (widening and transposing on the way), multiply, go on. Tile sizes change
// nothing in the result, see BlockProduct.h. An accumulated c is where each
// chain of additions starts, so that one product over k = k1 + k2 and two that
// accumulate give the same bits.
//
//===----------------------------------------------------------------------===//

#include "MatrixProduct.h"

#include "BlockProduct.h"
#include "Parallel.h"
#include "Storage.h"
#include "Transpose.h"

using namespace qwen;
using namespace qwen::cpu;

namespace {

/// Where a packed block of op(a) lies and how it is walked.
struct PackedStrides {
  int64_t row, depth;
};

} // namespace

/// Packs op(a)[row0 .. row0 + rows, k0 .. k0 + depth].
template <typename T>
static PackedStrides packLeft(T *to, const MatrixView &a, int64_t row0,
                              int64_t rows, int64_t k0, int64_t depth) {
  int64_t ld = padded(a.transposed ? rows : depth);
  withStorage(a.dtype, [&](auto tag) {
    using S = decltype(tag);
    if constexpr (std::is_same_v<Wide<S>, T>) {
      const S *data = static_cast<const S *>(a.data);
      if (a.transposed)
        for (int64_t k = 0; k < depth; ++k)
          loadRow(to + k * ld, data + (k0 + k) * a.stride + row0, rows, rows);
      else
        for (int64_t i = 0; i < rows; ++i)
          loadRow(to + i * ld, data + (row0 + i) * a.stride + k0, depth, depth);
    }
  });
  return a.transposed ? PackedStrides{1, ld} : PackedStrides{ld, 1};
}

/// Packs op(b)[k0 .. k0 + depth, col0 .. col0 + cols] into panels, the last one
/// padded with zeros.
template <typename T>
static void packRight(T *to, const MatrixView &b, int64_t k0, int64_t depth,
                      int64_t col0, int64_t cols) {
  withStorage(b.dtype, [&](auto tag) {
    using S = decltype(tag);
    if constexpr (std::is_same_v<Wide<S>, T>) {
      const S *data = static_cast<const S *>(b.data);
      for (int64_t j = 0; j < cols; j += panelCols<T>) {
        int64_t width = std::min(panelCols<T>, cols - j);
        T *panel = to + j * depth;
        if (!b.transposed) {
          for (int64_t k = 0; k < depth; ++k)
            loadRow(panel + k * panelCols<T>,
                    data + (k0 + k) * b.stride + col0 + j, width, panelCols<T>);
          continue;
        }
        if (width < panelCols<T>)
          std::fill(panel, panel + depth * panelCols<T>, T(0));
        transpose(panel, panelCols<T>, data + (col0 + j) * b.stride + k0,
                  b.stride, width, depth);
      }
    }
  });
}

/// Loads the start of the sums.
template <typename T>
static void loadTile(const MatrixProduct &p, T *tile, int64_t ld, int64_t row0,
                     int64_t rows, int64_t col0, int64_t cols) {
  withStorage(p.dtype, [&](auto tag) {
    using S = decltype(tag);
    for (int64_t i = 0; i < rows; ++i)
      loadRow(tile + i * ld,
              static_cast<const S *>(p.start.data) +
                  (row0 + i) * p.start.stride + col0,
              cols, ld);
  });
}

template <typename T>
static void storeTile(const MatrixProduct &p, const T *tile, int64_t ld,
                      int64_t row0, int64_t rows, int64_t col0, int64_t cols) {
  withStorage(p.dtype, [&](auto tag) {
    using S = decltype(tag);
    for (int64_t i = 0; i < rows; ++i)
      storeRow(static_cast<S *>(p.c) + (row0 + i) * p.stride + col0,
               tile + i * ld, cols);
  });
}

template <typename T>
void qwen::cpu::multiply(const MatrixProduct &p, std::byte *scratch) {
  GemmTiling tiling(p.m, p.n, p.k);
  Carver carver(scratch);
  GemmScratch<T> layout(carver, tiling);
  int64_t tiles = tiling.tilesM * tiling.tilesN;
  parallelFor(tiles, tiling.slots(), [&](int64_t index, int64_t slotIndex) {
    GemmSlot<T> slot = layout.slots.get(slotIndex, tiling);
    int64_t row0 = index / tiling.tilesN * tiling.rows;
    int64_t col0 = index % tiling.tilesN * tiling.cols;
    int64_t rows = std::min(tiling.rows, p.m - row0);
    int64_t cols = std::min(tiling.cols, p.n - col0);
    int64_t ldc = padded(cols);
    if (p.start.data)
      loadTile(p, slot.c, ldc, row0, rows, col0, cols);
    for (int64_t k0 = 0; k0 < p.k; k0 += tiling.depth) {
      int64_t depth = std::min(tiling.depth, p.k - k0);
      PackedStrides a = packLeft(slot.a, p.a, row0, rows, k0, depth);
      packRight(slot.b, p.b, k0, depth, col0, cols);
      blockProduct<T>(rows, ldc, depth,
                      {slot.a, a.row, a.depth, slot.b, panelCols<T>, slot.c,
                       ldc, panelCols<T> * depth},
                      k0 == 0 && !p.start.data ? Update::Set : Update::Add);
    }
    storeTile(p, slot.c, ldc, row0, rows, col0, cols);
  });
}

template void qwen::cpu::multiply<float>(const MatrixProduct &, std::byte *);
template void qwen::cpu::multiply<double>(const MatrixProduct &, std::byte *);
