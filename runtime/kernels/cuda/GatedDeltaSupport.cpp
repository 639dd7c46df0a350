//===- GatedDeltaSupport.cpp - What the gated delta rule takes -*- C++ -*-===//
//
// The shapes and layouts beyond the contract that the CUDA kernels need, and
// their scratch.
//
//===----------------------------------------------------------------------===//

#include "qwen/Plan/CudaKernels.h"
#include "runtime/kernels/cuda/GatedDeltaScratch.h"
#include "runtime/kernels/cuda/Reasons.h"

using namespace qwen;
using namespace qwen::cuda;

/// Rows of 128 elements that start at multiples of 16 bytes.
static std::string headsReason(const char *name, const ConstBuffer &rows) {
  if (std::string reason = bf16Reason(name, rows); !reason.empty())
    return reason;
  if (rows.dim(2) != 128)
    return unexpected("head dimension", rows.dim(2), "128");
  if (rows.strides[2] != 1 || rows.strides[0] % 8 != 0 ||
      rows.strides[1] % 8 != 0 || !isAligned(rows.data))
    return rowStartReason(name);
  return {};
}

template <typename Args> static std::string gatedDeltaReason(const Args &args) {
  if (args.chunk != 64)
    return unexpected("chunk", args.chunk, "64");
  if (args.v.dim(1) > 4 * args.q.dim(1))
    return unexpected("number of value heads of a key head",
                      args.v.dim(1) / args.q.dim(1), "at most 4");
  // Counts of chunks, heads and pieces of work are kept in 32 bits.
  if (args.q.dim(0) * args.v.dim(1) > INT32_MAX)
    return unexpected("number of tokens times value heads",
                      args.q.dim(0) * args.v.dim(1), "less than 2^31");
  return firstOf({headsReason("q", args.q), headsReason("k", args.k),
                  headsReason("v", args.v)});
}

std::string qwen::cuda::unsupportedReason(const GatedDeltaArgs &args) {
  return firstOf({gatedDeltaReason(args), headsReason("o", args.o)});
}

std::string qwen::cuda::unsupportedReason(const GatedDeltaGradArgs &args) {
  return firstOf({gatedDeltaReason(args), headsReason("dout", args.dout),
                  headsReason("dq", args.dq), headsReason("dk", args.dk),
                  headsReason("dv", args.dv)});
}

int64_t qwen::cuda::workspaceBytes(const GatedDeltaArgs &args) {
  return carvedBytes<GatedDeltaBuffers>(GatedDeltaSizes(args), false);
}

int64_t qwen::cuda::workspaceBytes(const GatedDeltaGradArgs &args) {
  return carvedBytes<GatedDeltaBuffers>(GatedDeltaSizes(args), true);
}
