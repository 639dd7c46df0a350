//===- BlockProduct.h - Matrix products of cached blocks -------*- C++ -*-===//
//
// The inner product loop of every kernel that multiplies matrices. Each element
// of the result is one chain of fused multiply-adds in the order of k, whatever
// the instruction set, the block's shape or the element's place in it. That is
// what makes a row of a product independent of its place and of its neighbours.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CPU_BLOCKPRODUCT_H
#define QWEN_RUNTIME_KERNELS_CPU_BLOCKPRODUCT_H

#include <cstdint>

namespace qwen::cpu {

/// Columns of b that are kept together: two of the widest vectors.
template <typename T>
inline constexpr int64_t panelCols = 128 / static_cast<int64_t>(sizeof(T));

/// What happens to the old c.
enum class Update { Set, Add, Subtract };

/// c = a b, c += a b or c -= a b. a(i, k) lies at a[i rowStride + k
/// depthStride] (any strides), c is row-major. Columns [p panelCols, ...) of b
/// lie at b + p panelStride, row-major with stride ldb; row-major b as a whole
/// has panelStride = panelCols. n is a multiple of 16: rows are padded.
template <typename T> struct BlockOperands {
  const T *a;
  int64_t rowStride, depthStride;
  const T *b;
  int64_t ldb;
  T *c;
  int64_t ldc;
  int64_t panelStride = panelCols<T>;
};

template <typename T>
using BlockProductFunction = void (*)(int64_t m, int64_t n, int64_t k,
                                      const BlockOperands<T> &operands,
                                      Update update);

/// The version for this machine's widest vectors.
template <typename T> BlockProductFunction<T> blockProductFunction();

template <typename T>
inline void blockProduct(int64_t m, int64_t n, int64_t k,
                         const BlockOperands<T> &operands,
                         Update update = Update::Set) {
  static const BlockProductFunction<T> function = blockProductFunction<T>();
  function(m, n, k, operands, update);
}

// One function an instruction set and type; use blockProduct.
void blockProductAvx2(int64_t m, int64_t n, int64_t k,
                      const BlockOperands<float> &operands, Update update);
void blockProductAvx2(int64_t m, int64_t n, int64_t k,
                      const BlockOperands<double> &operands, Update update);
void blockProductAvx512(int64_t m, int64_t n, int64_t k,
                        const BlockOperands<float> &operands, Update update);
void blockProductAvx512(int64_t m, int64_t n, int64_t k,
                        const BlockOperands<double> &operands, Update update);

} // namespace qwen::cpu

#endif // QWEN_RUNTIME_KERNELS_CPU_BLOCKPRODUCT_H
