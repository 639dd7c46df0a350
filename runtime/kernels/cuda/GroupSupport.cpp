//===- GroupSupport.cpp - Scratch of generated CUDA kernels ----*- C++ -*-===//

#include "qwen/Plan/CudaKernels.h"
#include "qwen/Plan/Scratch.h"

using namespace qwen;

/// What can be generated for a target is the code generator's to say.
std::string qwen::cuda::unsupportedReason(const GroupArgs &) { return {}; }

int64_t qwen::cuda::workspaceBytes(const GroupArgs &args) {
  return carvedBytes<GroupScratch>(args);
}
