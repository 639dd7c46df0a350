//===- ConvRows.cuh - What the convolution kernels share -------*- CUDA -*-===//
//
// Document starts inside a block of tokens, and the activation.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_CONVROWS_CUH
#define QWEN_RUNTIME_KERNELS_CUDA_CONVROWS_CUH

#include "RowKernels.h"
#include "Vectors.cuh"

namespace qwen::cuda {

/// Where documents start, read from device memory.
struct Boundaries {
  const int *cuSeqlens;
  int slots, tokens;

  explicit Boundaries(const ConstBuffer &cu, int64_t tokens)
      : cuSeqlens(cu.as<int>()), slots(int(cu.dim(0))), tokens(int(tokens)) {}

  /// Boundaries are held inside the pack, whatever the buffer holds.
  QWEN_DEVICE int at(int i) const { return min(max(cuSeqlens[i], 0), tokens); }
  /// Tokens from here on belong to no document.
  QWEN_DEVICE int total() const { return at(slots - 1); }
};

/// One bit a token, set where a document starts, for the 32 * Words tokens
/// from `origin` on. Lies in shared memory.
template <int Words> struct StartBits {
  uint32_t word[Words + 1]; ///< the last one is read but holds no token

  /// Called by the whole block.
  QWEN_DEVICE void fill(const Boundaries &boundaries, int origin) {
    if (threadIdx.x <= Words)
      word[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < boundaries.slots; i += blockDim.x) {
      // The pack's start is one, whatever the first slot holds.
      int bit = (i == 0 ? 0 : boundaries.at(i)) - origin;
      if (bit >= 0 && bit < 32 * Words)
        atomicOr(&word[bit / 32], 1u << bit % 32);
    }
    __syncthreads();
  }
  /// 32 bits from `bit` on.
  QWEN_DEVICE uint32_t from(int bit) const {
    return __funnelshift_r(word[bit / 32], word[bit / 32 + 1], bit % 32);
  }
};

/// 1 / (1 + e^-z). For bf16 from the special function unit alone, without the
/// steps for denormals: within a few units of float32, far below the rounding
/// of the result.
template <typename S> QWEN_DEVICE float sigmoid(float z) {
  if constexpr (std::is_same_v<S, float>) {
    return 1.0f / (1.0f + expf(-z));
  } else {
    constexpr float log2e = 1.44269504f;
    float power, inverse;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-log2e * z));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1.0f + power));
    return inverse;
  }
}

/// Taps of N channels; weight is [C, 1, width].
template <typename S, int N> struct Taps {
  float tap[convWidth][N];

  QWEN_DEVICE explicit Taps(const S *weight) {
    for (int c = 0; c < N; ++c) {
      auto taps = Vector<S, convWidth>::load(weight + c * convWidth);
      for (int i = 0; i < convWidth; ++i)
        tap[i][c] = taps[i];
    }
  }
};

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_CONVROWS_CUH
