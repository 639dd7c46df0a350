//===- Contiguous.h - Types without gaps ------------------------*- C++ -*-===//

#ifndef QWEN_PLAN_CONTIGUOUS_H
#define QWEN_PLAN_CONTIGUOUS_H

#include "qwen/Plan/Buffer.h"

#include <initializer_list>
#include <span>

namespace qwen {

/// Row-major without gaps. With an address: Buffer{contiguousType(…), data}.
inline BufferType contiguousType(DType dtype, std::span<const int64_t> shape) {
  BufferType type;
  type.dtype = dtype;
  type.rank = static_cast<int>(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    type.shape[i] = shape[i];
    type.strides[i] = stride;
    stride *= shape[i];
  }
  return type;
}
inline BufferType contiguousType(DType dtype,
                                 std::initializer_list<int64_t> shape) {
  return contiguousType(dtype, std::span(shape.begin(), shape.size()));
}

} // namespace qwen

#endif // QWEN_PLAN_CONTIGUOUS_H
