//===- Embedding.cu - Rows of a table by token id --------------*- CUDA -*-===//
//
// kernel.embedding. One block a token. An id outside the table gives a row of
// zeros, as on the CPU.
//
//===----------------------------------------------------------------------===//

#include "RowKernels.h"
#include "Vectors.cuh"
#include "runtime/kernels/cuda/Kernels.h"

using namespace qwen;
using namespace qwen::cuda;

namespace {

constexpr int threads = 128;
constexpr int batch = 5; ///< loads of a thread in flight together

/// `pieces` are rows' 16-byte pieces; strides are in bytes.
__global__ void __launch_bounds__(threads)
    gather(const char *table, const int *ids, char *out, int64_t tableStride,
           int64_t outStride, int64_t rows, int pieces) {
  int64_t token = blockIdx.x, id = ids[token];
  bool known = id >= 0 && id < rows;
  auto *from =
      reinterpret_cast<const uint4 *>(table + (known ? id : 0) * tableStride);
  auto *to = reinterpret_cast<uint4 *>(out + token * outStride);
  for (int first = threadIdx.x; first < pieces; first += threads * batch) {
    uint4 piece[batch];
#pragma unroll
    for (int k = 0; k < batch; ++k) {
      int i = first + k * threads;
      piece[k] = known && i < pieces ? from[i] : uint4{};
    }
#pragma unroll
    for (int k = 0; k < batch; ++k)
      if (int i = first + k * threads; i < pieces)
        to[i] = piece[k];
  }
}

} // namespace

cudaError_t qwen::cuda::launch(const EmbeddingArgs &args,
                               const LaunchContext &context) {
  int64_t bytes = dtypeBytes(args.table.dtype);
  gather<<<args.ids.dim(0), threads, 0, context.stream>>>(
      args.table.as<char>(), args.ids.as<int>(), args.out.as<char>(),
      args.table.strides[0] * bytes, args.out.strides[0] * bytes,
      args.table.dim(0), int(args.table.dim(1) * bytes / 16));
  return cudaGetLastError();
}
