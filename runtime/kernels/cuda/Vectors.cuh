//===- Vectors.cuh - Short vectors of stored elements ----------*- CUDA -*-===//
//
// One thread's consecutive elements as they lie in memory, so that a load or a
// store is one instruction of 8 or 16 bytes.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_VECTORS_CUH
#define QWEN_RUNTIME_KERNELS_CUDA_VECTORS_CUH

#include "Hopper.cuh"
#include "qwen/Plan/Buffer.h"

#include <type_traits>

namespace qwen::cuda {

/// N stored elements, S being float or __nv_bfloat16.
template <typename S, int N>
struct alignas(sizeof(S) * N < 16 ? 8 : 16) Vector {
  static constexpr int words = N * int(sizeof(S)) / 4;
  static constexpr bool isFloat = std::is_same_v<S, float>;
  uint32_t word[words];

  QWEN_DEVICE float operator[](int i) const {
    if constexpr (isFloat)
      return __uint_as_float(word[i]);
    else
      return __uint_as_float(i % 2 ? word[i / 2] & 0xffff0000u
                                   : word[i / 2] << 16);
  }
  /// Rounds to nearest.
  QWEN_DEVICE static Vector rounded(const float (&x)[N]) {
    Vector result;
    if constexpr (isFloat) {
      for (int i = 0; i < N; ++i)
        result.word[i] = __float_as_uint(x[i]);
    } else {
      for (int i = 0; i < N; i += 2) {
        __nv_bfloat162 pair = __floats2bfloat162_rn(x[i], x[i + 1]);
        result.word[i / 2] = reinterpret_cast<uint32_t &>(pair);
      }
    }
    return result;
  }
  QWEN_DEVICE static Vector load(const S *from) {
    return *reinterpret_cast<const Vector *>(from);
  }
  QWEN_DEVICE void store(S *to) const {
    *reinterpret_cast<Vector *>(to) = *this;
  }
};

/// Calls body with a value of the storage type; the dtype is f32 or bf16.
template <typename F> cudaError_t withStorage(DType dtype, F &&body) {
  return dtype == DType::BF16 ? body(__nv_bfloat16{}) : body(float{});
}

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_VECTORS_CUH
