//===- CudaCeilings.cpp - Rates of the GPU's copy and matrix product ------===//

#include "runtime/benchmark/KernelTiming.h"
#include "runtime/executor/CudaDevice.h"
#include "runtime/profile/Ceilings.h"

using namespace qwen;

StatusOr<Ceilings> qwen::measureCudaCeilings(DType dtype, int device,
                                             int localRank) {
  QWEN_RETURN_IF_ERROR(CudaDevice::open(device, localRank, "sm_90a").status());
  QWEN_ASSIGN_OR_RETURN(double bytes, bench::measureCopyRate());
  QWEN_ASSIGN_OR_RETURN(double flops, bench::measureMatrixRate(dtype));
  return Ceilings{
      flops, bytes,
      fmt::format("a {} product of 8192x34816x5120, and a copy of 1 "
                  "GiB",
                  dtypeName(dtype))};
}
