//===- Copy.cu - Copies between views --------------------------*- CUDA -*-===//
//
// kernel.copy. Bits are moved as they are, whatever the element type.
//
//===----------------------------------------------------------------------===//

#include "StridedRows.cuh"
#include "runtime/kernels/cuda/Kernels.h"

using namespace qwen;
using namespace qwen::cuda;

template <typename Unit>
static __global__ void __launch_bounds__(rowThreads)
    copyRows(const Unit *in, Unit *out, StridedRows rows, RowTiling tiling) {
  int64_t row = tiling.row();
  if (row >= rows.rows())
    return;
  in += rows.offset(row, rows.from);
  out += rows.offset(row, rows.to);
  Unit units[rowBatch];
#pragma unroll
  for (int k = 0; k < rowBatch; ++k)
    if (int64_t i = tiling.column(k); i < rows.shape[maxRank - 1])
      units[k] = in[i * rows.from[maxRank - 1]];
#pragma unroll
  for (int k = 0; k < rowBatch; ++k)
    if (int64_t i = tiling.column(k); i < rows.shape[maxRank - 1])
      out[i * rows.to[maxRank - 1]] = units[k];
}

cudaError_t qwen::cuda::launch(const CopyArgs &args,
                               const LaunchContext &context) {
  StridedRows rows(args.in, args.in.data, args.out, args.out.data);
  RowTiling tiling(rows);
  return withUnit(rows.unitBytes, [&](auto tag) {
    using Unit = decltype(tag);
    copyRows<<<tiling.blocks(rows), rowThreads, 0, context.stream>>>(
        args.in.as<Unit>(), args.out.as<Unit>(), rows, tiling);
    return cudaGetLastError();
  });
}
