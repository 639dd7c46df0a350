//===- AttentionSupport.cpp - What the attention kernels take --*- C++ -*-===//
//
// The shapes and layouts beyond the contract that the CUDA kernels need, and
// their scratch.
//
//===----------------------------------------------------------------------===//

#include "qwen/Plan/CudaKernels.h"
#include "runtime/kernels/cuda/AttentionScratch.h"

#include <cmath>

using namespace qwen;
using namespace qwen::cuda;

/// Rows of a head as one TMA box of panels.
static std::string rowsReason(const char *name, const ConstBuffer &rows) {
  if (rows.dtype != DType::BF16)
    return std::string(name) + " is " + dtypeName(rows.dtype) +
           ", expected bf16";
  if (rows.strides[2] != 1 || rows.strides[1] % 64 != 0 || rows.strides[1] <= 0)
    return std::string("heads of ") + name +
           " do not follow each other at a multiple of 64 elements";
  if (rows.strides[0] <= 0 || rows.strides[0] % 8 != 0 ||
      rows.strides[0] >= int64_t(1) << 32 ||
      reinterpret_cast<uintptr_t>(rows.data) % 16 != 0)
    return std::string("rows of ") + name +
           " do not start at multiples of 16 bytes";
  return {};
}

template <typename Args> static std::string commonReason(const Args &args) {
  int64_t headDim = args.q.dim(2);
  if (headDim != 64 && headDim != 128 && headDim != 256)
    return "head dimension is " + std::to_string(headDim) +
           ", the kernel has 64, 128 and 256";
  if (!(args.scale > 0))
    return "scale is " + std::to_string(args.scale) +
           ", the kernel expects a positive one";
  if (args.k.dim(1) > 64)
    return "key heads are " + std::to_string(args.k.dim(1)) +
           ", the kernel has at most 64";
  // Squares of 64 by 64 scores are counted in 32 bits.
  if (args.q.dim(0) > int64_t(1) << 21)
    return "tokens are " + std::to_string(args.q.dim(0)) +
           ", the kernel has at most 2097152";
  if (args.lse.dtype != DType::F32)
    return std::string("lse is ") + dtypeName(args.lse.dtype) +
           ", expected f32";
  for (auto [name, rows] : {std::pair<const char *, ConstBuffer>{"q", args.q},
                            {"k", args.k},
                            {"v", args.v},
                            {"o", args.o}})
    if (std::string reason = rowsReason(name, rows); !reason.empty())
      return reason;
  return {};
}

std::string qwen::cuda::unsupportedReason(const AttentionArgs &args) {
  return commonReason(args);
}

std::string qwen::cuda::unsupportedReason(const AttentionGradArgs &args) {
  std::string reason = commonReason(args);
  for (auto [name, rows] :
       {std::pair<const char *, ConstBuffer>{"dout", args.dout},
        {"dq", args.dq},
        {"dk", args.dk},
        {"dv", args.dv}})
    if (reason.empty())
      reason = rowsReason(name, rows);
  return reason;
}

int64_t qwen::cuda::workspaceBytes(const AttentionArgs &args) {
  Carver carver;
  AttentionBuffers(carver, AttentionSizes(args), false);
  return carver.bytes();
}

int64_t qwen::cuda::workspaceBytes(const AttentionGradArgs &args) {
  Carver carver;
  AttentionBuffers(carver, AttentionSizes(args), true);
  return carver.bytes();
}
