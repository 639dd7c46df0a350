//===- LossSupport.cpp - What the CUDA loss takes --------------*- C++ -*-===//
//
// The types beyond the contract that the loss kernels need, and their scratch.
//
//===----------------------------------------------------------------------===//

#include "qwen/Plan/CudaKernels.h"

#include "qwen/Plan/Scratch.h"

using namespace qwen;

/// Logits of a block of tokens take at most this.
static constexpr int64_t maxLogitsBytes = int64_t(2) << 30;
/// For the products.
static constexpr int64_t productBytes = int64_t(32) << 20;

template <typename Args> static std::string commonReason(const Args &args) {
  for (auto [name, operand] :
       {std::pair<const char *, const ConstBuffer *>{"x", &args.x},
        {"weight", &args.weight}})
    if (operand->dtype != DType::BF16)
      return std::string(name) + " is " + dtypeName(operand->dtype) +
             ", expected bf16";
  return {};
}

template <typename Args> static int64_t commonBytes(const Args &args) {
  int64_t vocabulary = args.weight.dim(0);
  int64_t rows = std::clamp<int64_t>(maxLogitsBytes / (2 * vocabulary), 1,
                                     args.x.dim(0));
  return rows * vocabulary * 2 + productBytes + args.x.dim(0) * 64;
}

std::string qwen::cuda::unsupportedReason(const LinearCrossEntropyArgs &args) {
  return commonReason(args);
}
std::string
qwen::cuda::unsupportedReason(const LinearCrossEntropyGradArgs &args) {
  return commonReason(args);
}
int64_t qwen::cuda::workspaceBytes(const LinearCrossEntropyArgs &args) {
  return commonBytes(args);
}
int64_t qwen::cuda::workspaceBytes(const LinearCrossEntropyGradArgs &args) {
  return commonBytes(args);
}
