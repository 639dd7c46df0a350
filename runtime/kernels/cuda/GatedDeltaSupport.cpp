//===- GatedDeltaSupport.cpp - What the gated delta kernels take -*- C++
//-*-===//
//
// The shapes and layouts beyond the contract that the CUDA kernels need, and
// their scratch.
//
//===----------------------------------------------------------------------===//

#include "qwen/Plan/CudaKernels.h"
#include "runtime/kernels/cuda/GatedDeltaScratch.h"

using namespace qwen;
using namespace qwen::cuda;

static std::string found(const char *name, const char *expected,
                         int64_t value) {
  return std::string(name) + " is " + std::to_string(value) + ", expected " +
         expected;
}

/// Rows of 128 elements that start at multiples of 16 bytes.
static std::string rowsReason(const char *name, const ConstBuffer &rows) {
  if (rows.dtype != DType::BF16)
    return std::string(name) + " is " + dtypeName(rows.dtype) +
           ", expected bf16";
  if (rows.dim(2) != 128)
    return found("head dimension", "128", rows.dim(2));
  if (rows.strides[2] != 1 || rows.strides[0] % 8 != 0 ||
      rows.strides[1] % 8 != 0 ||
      reinterpret_cast<uintptr_t>(rows.data) % 16 != 0)
    return std::string("rows of ") + name +
           " do not start at multiples of 16 bytes";
  return {};
}

template <typename Args> static std::string commonReason(const Args &args) {
  if (args.chunk != 64)
    return found("chunk", "64", args.chunk);
  if (args.v.dim(1) > 4 * args.q.dim(1))
    return found("value heads of a key head", "at most 4",
                 args.v.dim(1) / args.q.dim(1));
  // Counts of chunks, heads and pieces of work are kept in 32 bits.
  if (args.q.dim(0) * args.v.dim(1) > INT32_MAX)
    return found("tokens times value heads", "less than 2^31",
                 args.q.dim(0) * args.v.dim(1));
  for (auto [name, rows] :
       {std::pair<const char *, const ConstBuffer *>{"q", &args.q},
        {"k", &args.k},
        {"v", &args.v}})
    if (std::string reason = rowsReason(name, *rows); !reason.empty())
      return reason;
  return {};
}

std::string qwen::cuda::unsupportedReason(const GatedDeltaArgs &args) {
  std::string reason = commonReason(args);
  return reason.empty() ? rowsReason("o", args.o) : reason;
}

std::string qwen::cuda::unsupportedReason(const GatedDeltaGradArgs &args) {
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

int64_t qwen::cuda::workspaceBytes(const GatedDeltaArgs &args) {
  Carver carver;
  GatedDeltaBuffers(carver, GatedDeltaSizes(args), false);
  return carver.bytes();
}

int64_t qwen::cuda::workspaceBytes(const GatedDeltaGradArgs &args) {
  Carver carver;
  GatedDeltaBuffers(carver, GatedDeltaSizes(args), true);
  return carver.bytes();
}
