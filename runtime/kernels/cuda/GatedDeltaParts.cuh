//===- GatedDeltaParts.cuh - What the gated delta kernels share -*- CUDA
//-*-===//
//
// The scratch that the kernels hand each other, and the host functions that
// enqueue each of them. C = 64 tokens a chunk, K = V = 128. Per chunk and value
// head, G the running sum of log2(e) g inside the chunk:
//
//   A  = (I + strictLower(beta k k^T * D))^-1 * D     "system"    [C, C] bf16
//   P  = scale (q k^T * D), lower                     "attended"  [C, C] bf16
//   w  = beta (v - 2^G k S);  vd = A w
//   o  = scale 2^G (q S) + P vd;  S' = 2^GC S + k^T (2^(GC - G) vd)
//
// and in the backward, dS the gradient after the chunk:
//
//   x  = A^T (2^(GC - G) k dS + P^T do);  dv = beta x
//   dS <- 2^GC dS - k^T (2^G beta x) + q^T (scale 2^G do)
//
// Matrices lie as images: the bytes of the swizzled shared-memory tile, so that
// one bulk copy moves them. Rows behind a document's end are zeros.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_GATEDDELTAPARTS_CUH
#define QWEN_RUNTIME_KERNELS_CUDA_GATEDDELTAPARTS_CUH

#include "GatedDeltaScratch.h"
#include "Hopper.cuh"

namespace qwen::cuda {

using Bf16 = __nv_bfloat16;

/// Rows [T, heads] of a strided operand.
template <typename T> struct HeadRows {
  T *data;
  int64_t tokenStride, headStride; ///< in elements
  QWEN_DEVICE T *row(int64_t token, int64_t head) const {
    return data + token * tokenStride + head * headStride;
  }
};
template <typename T> HeadRows<T> headRows(const Buffer &buffer) {
  return {buffer.as<T>(), buffer.strides[0], buffer.strides[1]};
}
template <typename T> HeadRows<const T> headRows(const ConstBuffer &buffer) {
  return {buffer.as<T>(), buffer.strides[0], buffer.strides[1]};
}

/// Part of an output that no document covers, to be zeroed.
struct TailRows {
  std::byte *data;
  int64_t tokenStride, headStride; ///< in bytes
  int heads, rowBytes;
};
struct Tails {
  TailRows rows[5];
  int count;
};
inline TailRows tailRows(const Buffer &buffer) {
  int64_t bytes = dtypeBytes(buffer.dtype);
  int inner = buffer.rank == 3 ? int(buffer.dim(2)) : 1;
  return {buffer.as<std::byte>(), buffer.strides[0] * bytes,
          buffer.strides[1] * bytes, int(buffer.dim(1)), int(inner * bytes)};
}

/// Operands of the preparation.
struct PrepareOperands {
  HeadRows<const Bf16> q, k, beta;
  HeadRows<const float> g;
  float scale, eps;
};

// Enqueue one kernel each, in the order of their use.
cudaError_t enqueueSchedule(const GatedDeltaSizes &, const GatedDeltaBuffers &,
                            const int *cuSeqlens, const Tails &, cudaStream_t);
cudaError_t enqueuePrepare(const GatedDeltaSizes &, const GatedDeltaBuffers &,
                           const PrepareOperands &, bool keepNorms,
                           cudaStream_t);
/// o of every chunk.
cudaError_t enqueueOutputScan(const GatedDeltaSizes &,
                              const GatedDeltaBuffers &, HeadRows<const Bf16> v,
                              HeadRows<Bf16> o, float scale, cudaStream_t);
/// State before every chunk, and vd.
cudaError_t enqueueStateScan(const GatedDeltaSizes &, const GatedDeltaBuffers &,
                             HeadRows<const Bf16> v, cudaStream_t);
/// Gradient of the state after every chunk, x, and dv.
cudaError_t enqueueGradScan(const GatedDeltaSizes &, const GatedDeltaBuffers &,
                            HeadRows<const Bf16> dout, HeadRows<Bf16> dv,
                            float scale, cudaStream_t);

/// Multiprocessors of the current device.
int multiprocessors();

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_GATEDDELTAPARTS_CUH
