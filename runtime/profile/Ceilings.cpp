//===- Ceilings.cpp - What the machine can do, measured -------------------===//

#include "runtime/profile/Ceilings.h"

#include "qwen/Plan/Target.h"

using namespace qwen;

StatusOr<Ceilings> qwen::measureCeilings(std::string_view target, DType dtype,
                                         int device, int localRank) {
  if (targetKind(target) == TargetKind::Cuda)
    return measureCudaCeilings(dtype, device, localRank);
  return measureCpuCeilings(dtype);
}
