//===- Fill.cu - Constant views --------------------------------*- CUDA -*-===//
//
// kernel.fill.
//
//===----------------------------------------------------------------------===//

#include "StridedRows.cuh"
#include "qwen/Support/BFloat16.h"
#include "runtime/kernels/cuda/Kernels.h"

#include <cstring>

using namespace qwen;
using namespace qwen::cuda;

template <typename Unit>
static __global__ void __launch_bounds__(rowThreads)
    fillRows(Unit *out, Unit value, StridedRows rows, RowTiling tiling) {
  int64_t row = tiling.row();
  if (row >= rows.rows())
    return;
  out += rows.offset(row, rows.to);
#pragma unroll
  for (int k = 0; k < rowBatch; ++k)
    if (int64_t i = tiling.column(k); i < rows.shape[maxRank - 1])
      out[i * rows.to[maxRank - 1]] = value;
}

/// `value` as stored, repeated over 16 bytes.
static uint4 pattern(DType dtype, double value) {
  auto repeat = [](auto element) {
    uint4 units;
    for (size_t i = 0; i < sizeof(units); i += sizeof(element))
      std::memcpy(reinterpret_cast<char *>(&units) + i, &element,
                  sizeof(element));
    return units;
  };
  switch (dtype) {
  case DType::F32:
    return repeat(static_cast<float>(value));
  case DType::BF16:
    return repeat(toBFloat16(static_cast<float>(value)));
  case DType::F64:
    return repeat(value);
  case DType::I32:
    return repeat(static_cast<int32_t>(value));
  }
  return {};
}

cudaError_t qwen::cuda::launch(const FillArgs &args,
                               const LaunchContext &context) {
  StridedRows rows(args.out, args.out.data, args.out, args.out.data);
  RowTiling tiling(rows);
  uint4 repeated = pattern(args.out.dtype, args.value);
  return withUnit(rows.unitBytes, [&](auto tag) {
    using Unit = decltype(tag);
    Unit value;
    std::memcpy(&value, &repeated, sizeof(value));
    fillRows<<<tiling.blocks(rows), rowThreads, 0, context.stream>>>(
        args.out.as<Unit>(), value, rows, tiling);
    return cudaGetLastError();
  });
}
