//===- HeadRow.h - Addresses in views by token and head --------*- C++ -*-===//
//
// Rows of [T, heads, D] views and elements of [T, heads] views.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CPU_HEADROW_H
#define QWEN_RUNTIME_KERNELS_CPU_HEADROW_H

#include "qwen/Plan/Buffer.h"

namespace qwen::cpu {

/// Address of row (token, head) of a [T, heads, D] view, or of an element of a
/// [T, heads] view.
template <typename S, typename B>
inline auto *headRow(const B &buffer, int64_t token, int64_t head) {
  return buffer.template as<S>() + token * buffer.strides[0] +
         head * buffer.strides[1];
}

} // namespace qwen::cpu

#endif // QWEN_RUNTIME_KERNELS_CPU_HEADROW_H
