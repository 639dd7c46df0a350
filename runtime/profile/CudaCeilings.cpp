//===- CudaCeilings.cpp - Rates of the GPU's copy and matrix product ------===//

#include "runtime/benchmark/KernelTiming.h"
#include "runtime/profile/Ceilings.h"

using namespace qwen;
using bench::DeviceArray;

StatusOr<Ceilings> qwen::measureCudaCeilings(DType dtype) {
  constexpr bench::TimingOptions options{
      .warmUp = 2, .samples = 8, .perSample = 2};
  constexpr int64_t bytes = int64_t(1) << 30, size = 8192;
  QWEN_ASSIGN_OR_RETURN(DeviceArray from, DeviceArray::create(bytes));
  QWEN_ASSIGN_OR_RETURN(DeviceArray to, DeviceArray::create(bytes));
  QWEN_RETURN_IF_ERROR(from.fillUniform(dtype, -1, 1));
  QWEN_ASSIGN_OR_RETURN(bench::Times copy,
                        bench::timeReplay(
                            [&](cudaStream_t stream) {
                              return bench::cudaStatus(
                                  cudaMemcpyAsync(to.data(), from.data(), bytes,
                                                  cudaMemcpyDeviceToDevice,
                                                  stream),
                                  "copy");
                            },
                            options));
  GemmArgs product{};
  product.a = from.view(dtype, {size, size});
  product.b = from.view(dtype, {size, size}, size * size);
  product.c = to.view(dtype, {size, size});
  product.transposeB = true;
  QWEN_ASSIGN_OR_RETURN(bench::Times gemm, bench::timeKernel(product, options));
  double cube = double(size) * size * size;
  return Ceilings{2e3 * cube / gemm.median, 2e3 * double(bytes) / copy.median,
                  fmt::format("a {} product of {} cubed, and a copy of {} MiB",
                              dtypeName(dtype), size, bytes >> 20)};
}
