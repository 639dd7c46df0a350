//===- BlockProductImpl.h - Register tiles of blockProduct -----*- C++ -*-===//
//
// Included once for each instruction set, by a file that is compiled for it and
// defines `tileRows` and `Simd<T>`. Everything here has internal linkage: an
// inline function that two of those files shared could end up in the program in
// the version that an older machine cannot run.
//
//===----------------------------------------------------------------------===//

#include "runtime/kernels/cpu/BlockProduct.h"

namespace qwen::cpu {
namespace {

template <typename T>
constexpr int64_t lanes = sizeof(typename Simd<T>::Vector) / sizeof(T);

/// M rows by V vectors of c, held in registers over all of k.
template <typename T, int M, int V, bool subtract>
[[gnu::always_inline]] inline void
tileLoop(int64_t k, const BlockOperands<T> &o, const T *a, const T *b,
         typename Simd<T>::Vector (&sums)[M][V]) {
  using Vector = typename Simd<T>::Vector;
  for (int64_t depth = 0; depth < k; ++depth) {
    Vector right[V];
    for (int v = 0; v < V; ++v)
      right[v] = Simd<T>::load(b + v * lanes<T>);
    for (int i = 0; i < M; ++i) {
      Vector left = Simd<T>::broadcast(a[i * o.rowStride]);
      for (int v = 0; v < V; ++v)
        sums[i][v] = subtract ? Simd<T>::subtract(left, right[v], sums[i][v])
                              : Simd<T>::add(left, right[v], sums[i][v]);
    }
    a += o.depthStride;
    b += o.ldb;
  }
}

template <typename T, int M, int V>
void tile(int64_t k, const BlockOperands<T> &o, const T *a, const T *b, T *c,
          Update update) {
  typename Simd<T>::Vector sums[M][V];
  for (int i = 0; i < M; ++i)
    for (int v = 0; v < V; ++v)
      sums[i][v] = update == Update::Set
                       ? Simd<T>::zero()
                       : Simd<T>::load(c + i * o.ldc + v * lanes<T>);
  if (update == Update::Subtract)
    tileLoop<T, M, V, true>(k, o, a, b, sums);
  else
    tileLoop<T, M, V, false>(k, o, a, b, sums);
  for (int i = 0; i < M; ++i)
    for (int v = 0; v < V; ++v)
      Simd<T>::store(c + i * o.ldc + v * lanes<T>, sums[i][v]);
}

/// All rows of one column strip, M at a time, the rest in smaller tiles.
template <typename T, int V, int M>
void strip(int64_t m, int64_t k, const BlockOperands<T> &o, const T *a,
           const T *b, T *c, Update update) {
  int64_t i = 0;
  for (; i + M <= m; i += M) {
    tile<T, M, V>(k, o, a, b, c, update);
    a += M * o.rowStride;
    c += M * o.ldc;
  }
  if constexpr (M > 1) {
    constexpr int next = M > 8 ? 8 : M > 4 ? 4 : M / 2;
    if (i < m)
      strip<T, V, next>(m - i, k, o, a, b, c, update);
  }
}

template <typename T>
void product(int64_t m, int64_t n, int64_t k, const BlockOperands<T> &o,
             Update update) {
  constexpr int64_t wide = 2 * lanes<T>;
  for (int64_t panel = 0; panel * panelCols<T> < n; ++panel) {
    const T *b = o.b + panel * o.panelStride;
    int64_t begin = panel * panelCols<T>;
    int64_t end = begin + panelCols<T> < n ? begin + panelCols<T> : n;
    int64_t j = begin;
    for (; j + wide <= end; j += wide)
      strip<T, 2, tileRows>(m, k, o, o.a, b + (j - begin), o.c + j, update);
    // Rows are padded to 16 columns, so that only a vector of 16 may remain.
    if constexpr (lanes<T> == 16)
      if (j < end)
        strip<T, 1, tileRows>(m, k, o, o.a, b + (j - begin), o.c + j, update);
  }
}

} // namespace
} // namespace qwen::cpu
