//===- Storage.h - Storage and accumulation types --------------*- C++ -*-===//
//
// Kernels are templates over the storage type; they compute in Wide<S>:
// float32, or float64 for float64 storage.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CPU_STORAGE_H
#define QWEN_RUNTIME_KERNELS_CPU_STORAGE_H

#include "qwen/Plan/Buffer.h"
#include "qwen/Support/BFloat16.h"

#include <type_traits>

namespace qwen::cpu {

template <typename S>
using Wide = std::conditional_t<std::is_same_v<S, double>, double, float>;

inline float widen(float x) { return x; }
inline double widen(double x) { return x; }
inline float widen(BFloat16 x) { return toFloat(x); }

/// Rounds a computed value to its storage type.
template <typename S, typename T> inline S narrow(T x) {
  if constexpr (std::is_same_v<S, BFloat16>)
    return toBFloat16(static_cast<float>(x));
  else
    return static_cast<S>(x);
}

/// Calls body(S{}) with the storage type of a float `dtype`.
template <typename F> void withStorage(DType dtype, F &&body) {
  switch (dtype) {
  case DType::F32:
    return body(float{});
  case DType::BF16:
    return body(BFloat16{});
  case DType::F64:
    return body(double{});
  case DType::I32:
    return; // excluded by checkKernel
  }
}

/// As withStorage, for operands that are float32 or float64.
template <typename F> void withWide(DType dtype, F &&body) {
  if (dtype == DType::F64)
    body(double{});
  else
    body(float{});
}

/// Copies `n` stored values into accumulation type and zeroes up to `padTo`.
template <typename S, typename T>
inline void loadRow(T *to, const S *from, int64_t n, int64_t padTo) {
  for (int64_t i = 0; i < n; ++i)
    to[i] = widen(from[i]);
  for (int64_t i = n; i < padTo; ++i)
    to[i] = 0;
}

template <typename S, typename T>
inline void storeRow(S *to, const T *from, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    to[i] = narrow<S>(from[i]);
}

} // namespace qwen::cpu

#endif // QWEN_RUNTIME_KERNELS_CPU_STORAGE_H
