//===- MatrixProduct.h - Large matrix products on all threads --*- C++ -*-===//
//
// c = op(a) op(b) over packed tiles; used by gemm and by the loss.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CPU_MATRIXPRODUCT_H
#define QWEN_RUNTIME_KERNELS_CPU_MATRIXPRODUCT_H

#include "qwen/Plan/Buffer.h"

#include <cstddef>

namespace qwen::cpu {

/// A row-major matrix in memory; `transposed` if the product uses its
/// transpose.
struct MatrixView {
  const void *data = nullptr;
  DType dtype = DType::F32;
  int64_t stride = 0;
  bool transposed = false;
};

/// c [m, n] = op(a) [m, k] op(b) [k, n] + start, in T, rounded to c's dtype.
struct MatrixProduct {
  int64_t m, n, k;
  MatrixView a, b;
  void *c;
  DType dtype;
  int64_t stride;
  /// Of c's shape and type, and it may be c; null data: zeros.
  MatrixView start = {};
};

/// Runs the product; `scratch` holds a GemmScratch<T> for (m, n, k).
template <typename T>
void multiply(const MatrixProduct &product, std::byte *scratch);

extern template void multiply<float>(const MatrixProduct &, std::byte *);
extern template void multiply<double>(const MatrixProduct &, std::byte *);

/// Row stride of a 2-D view; a single row may carry any.
inline int64_t rowStride(const BufferType &type) {
  return type.dim(0) == 1 ? type.dim(1) : type.strides[0];
}

} // namespace qwen::cpu

#endif // QWEN_RUNTIME_KERNELS_CPU_MATRIXPRODUCT_H
