//===- GemmSupport.cpp - What the CUDA GEMM takes --------------*- C++ -*-===//
//
// The types and layouts beyond the contract that cuBLASLt needs, and its
// scratch.
//
//===----------------------------------------------------------------------===//

#include "qwen/Plan/CudaKernels.h"

using namespace qwen;

/// Scratch that NVIDIA recommends for Hopper.
static constexpr int64_t gemmWorkspaceBytes = int64_t(32) << 20;

static std::string bf16Reason(const char *name, const ConstBuffer &operand) {
  if (operand.dtype == DType::BF16)
    return {};
  return std::string(name) + " is " + dtypeName(operand.dtype) +
         ", expected bf16";
}

std::string qwen::cuda::unsupportedReason(const GemmArgs &args) {
  std::string reason = bf16Reason("a", args.a);
  if (reason.empty())
    reason = bf16Reason("b", args.b);
  if (reason.empty() && args.c.dtype == DType::F64)
    reason = "c is f64, expected f32 or bf16";
  return reason;
}

int64_t qwen::cuda::workspaceBytes(const GemmArgs &) {
  return gemmWorkspaceBytes;
}
