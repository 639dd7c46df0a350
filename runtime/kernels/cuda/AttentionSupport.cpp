//===- AttentionSupport.cpp - What the attention kernels take --*- C++ -*-===//
//
// The shapes and layouts beyond the contract that the CUDA kernels need, and
// their scratch.
//
//===----------------------------------------------------------------------===//

#include "qwen/Plan/CudaKernels.h"
#include "runtime/kernels/cuda/AttentionScratch.h"
#include "runtime/kernels/cuda/Reasons.h"

using namespace qwen;
using namespace qwen::cuda;

/// Rows of a head as one TMA box of panels.
static std::string panelsReason(const char *name, const ConstBuffer &rows) {
  if (std::string reason = bf16Reason(name, rows); !reason.empty())
    return reason;
  if (rows.strides[2] != 1 || rows.strides[1] % 64 != 0 || rows.strides[1] <= 0)
    return fmt::format(
        "heads of {} do not follow each other at a multiple of 64 elements",
        name);
  if (rows.strides[0] <= 0 || rows.strides[0] % 8 != 0 ||
      rows.strides[0] >= int64_t(1) << 32 || !isAligned(rows.data))
    return rowStartReason(name);
  return {};
}

template <typename Args> static std::string attentionReason(const Args &args) {
  int64_t headDim = args.q.dim(2);
  if (headDim != 64 && headDim != 128 && headDim != 256)
    return unexpected("head dimension", headDim, "64, 128 or 256");
  if (!(args.scale > 0))
    return unexpected("scale", args.scale, "a positive number");
  if (args.k.dim(1) > 64)
    return unexpected("number of key heads", args.k.dim(1), "at most 64");
  // Squares of 64 by 64 scores are counted in 32 bits.
  if (args.q.dim(0) > int64_t(1) << 21)
    return unexpected("number of tokens", args.q.dim(0), "at most 2097152");
  if (args.lse.dtype != DType::F32)
    return unexpected("lse", dtypeName(args.lse.dtype), "f32");
  return firstOf({panelsReason("q", args.q), panelsReason("k", args.k),
                  panelsReason("v", args.v), panelsReason("o", args.o)});
}

std::string qwen::cuda::unsupportedReason(const AttentionArgs &args) {
  return attentionReason(args);
}

std::string qwen::cuda::unsupportedReason(const AttentionGradArgs &args) {
  return firstOf({attentionReason(args), panelsReason("dout", args.dout),
                  panelsReason("dq", args.dq), panelsReason("dk", args.dk),
                  panelsReason("dv", args.dv)});
}

int64_t qwen::cuda::workspaceBytes(const AttentionArgs &args) {
  return carvedBytes<AttentionBuffers>(AttentionSizes(args), false);
}

int64_t qwen::cuda::workspaceBytes(const AttentionGradArgs &args) {
  return carvedBytes<AttentionBuffers>(AttentionSizes(args), true);
}
