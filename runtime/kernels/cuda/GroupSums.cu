//===- GroupSums.cu - Column sums of generated kernels --------------------===//
//
// A warp reads 32 columns of a block's sums at once; 32 warps take blocks in
// turn by equal shares, and their sums are added in order.
//
//===----------------------------------------------------------------------===//

#include "GroupSums.h"

#include <algorithm>

using namespace qwen::cuda;

namespace {

constexpr int lanes = 32, shares = 32;
/// Outputs of one launch.
constexpr int maxSums = 8;

struct SumList {
  PartialSums sums[maxSums];
};

__global__ void __launch_bounds__(lanes *shares)
    addBlocks(SumList list, int64_t blocks, int64_t stride) {
  const PartialSums &sum = list.sums[blockIdx.y];
  int64_t column = int64_t(blockIdx.x) * lanes + threadIdx.x;
  bool inside = column < sum.columns;
  // The blocks are on the processors while the kernel before, which leaves the
  // partial sums, comes to its end.
  cudaGridDependencySynchronize();
  int64_t share = (blocks + shares - 1) / shares;
  int64_t begin = threadIdx.y * share;
  int64_t end = min(blocks, begin + share);
  float total = 0;
  if (inside) {
#pragma unroll 8
    for (int64_t block = begin; block < end; ++block)
      total += sum.partials[block * stride + column];
  }
  __shared__ float totals[shares][lanes];
  totals[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y != 0 || !inside)
    return;
  float before = sum.accumulate ? sum.out[column] : 0;
  for (int i = 1; i < shares; ++i)
    total += totals[i][threadIdx.x];
  sum.out[column] = before + total;
}

} // namespace

cudaError_t qwen::cuda::addPartialSums(std::span<const PartialSums> sums,
                                       int64_t blocks, int64_t stride,
                                       cudaStream_t stream) {
  for (size_t first = 0; first < sums.size(); first += maxSums) {
    SumList list = {};
    size_t count = std::min<size_t>(maxSums, sums.size() - first);
    int64_t columns = 0;
    for (size_t i = 0; i < count; ++i) {
      list.sums[i] = sums[first + i];
      columns = std::max(columns, sums[first + i].columns);
    }
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim =
        dim3(unsigned((columns + lanes - 1) / lanes), unsigned(count));
    config.blockDim = dim3(lanes, shares);
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = 1;
    if (cudaError_t error =
            cudaLaunchKernelEx(&config, addBlocks, list, blocks, stride);
        error != cudaSuccess)
      return error;
  }
  return cudaSuccess;
}
