//===- RowKernelsSupport.cpp - What the row kernels take -------*- C++ -*-===//
//
// The shapes and layouts beyond the contract that the memory-bound CUDA kernels
// need, and their scratch.
//
//===----------------------------------------------------------------------===//

#include "qwen/Plan/CudaKernels.h"
#include "runtime/kernels/cuda/Reasons.h"
#include "runtime/kernels/cuda/RowKernels.h"

using namespace qwen;
using namespace qwen::cuda;

/// Rows of a [T, C] view, and thus C too, are multiples of 16 bytes.
static std::string rowsReason(const char *name, const ConstBuffer &rows) {
  int64_t bytes = dtypeBytes(rows.dtype);
  if (rows.dim(1) * bytes % 16 != 0)
    return fmt::format("rows of {} have {} bytes, expected a multiple of 16",
                       name, rows.dim(1) * bytes);
  if (rows.strides[0] * bytes % 16 != 0 || !isAligned(rows.data))
    return rowStartReason(name);
  return {};
}

static std::string startReason(const std::string &name,
                               const ConstBuffer &operand) {
  if (isAligned(operand.data))
    return {};
  return name + " does not start at a multiple of 16 bytes";
}

/// Tokens are counted in 32 bits and are a dimension of the grid.
static std::string tokensReason(int64_t tokens, int64_t tokensOfBlock) {
  if (tokens <= 65535 * tokensOfBlock)
    return {};
  return unexpected("number of tokens", tokens,
                    fmt::format("at most {}", 65535 * tokensOfBlock));
}

//===----------------------------------------------------------------------===//
// Convolution
//===----------------------------------------------------------------------===//

static std::string widthReason(const ConstBuffer &weight) {
  if (weight.dim(2) == convWidth)
    return {};
  return unexpected("width", weight.dim(2), std::to_string(convWidth));
}

std::string qwen::cuda::unsupportedReason(const CausalConv1dArgs &args) {
  return firstOf({floatReason("x", args.x), widthReason(args.weight),
                  tokensReason(args.x.dim(0), 32), rowsReason("x", args.x),
                  rowsReason("y", args.y), startReason("weight", args.weight)});
}

std::string qwen::cuda::unsupportedReason(const CausalConv1dGradArgs &args) {
  return firstOf({floatReason("x", args.x), widthReason(args.weight),
                  tokensReason(args.x.dim(0), 32), rowsReason("x", args.x),
                  rowsReason("dy", args.dy), rowsReason("dx", args.dx),
                  startReason("weight", args.weight),
                  startReason("dweight", args.dweight)});
}

int64_t qwen::cuda::workspaceBytes(const CausalConv1dArgs &) { return 0; }

int64_t qwen::cuda::workspaceBytes(const CausalConv1dGradArgs &args) {
  return carvedBytes<TapPartials>(args);
}

//===----------------------------------------------------------------------===//
// Embedding, angles, fill, copy
//===----------------------------------------------------------------------===//

std::string qwen::cuda::unsupportedReason(const EmbeddingArgs &args) {
  return firstOf(
      {floatReason("table", args.table), tokensReason(args.ids.dim(0), 32),
       rowsReason("table", args.table), rowsReason("out", args.out)});
}

std::string qwen::cuda::unsupportedReason(const EmbeddingGradArgs &args) {
  if (args.dout.dim(1) % 8 != 0)
    return unexpected("width", args.dout.dim(1), "a multiple of 8");
  return firstOf(
      {floatReason("dout", args.dout), tokensReason(args.ids.dim(0), 32),
       rowsReason("dout", args.dout), rowsReason("dtable", args.dtable)});
}

/// Vectors of 8 elements of the table lie inside or outside of a shard.
static std::string partOfTableReason(const BufferType &shard, int64_t begin,
                                     int64_t width) {
  if (width % 8 != 0)
    return unexpected("width", width, "a multiple of 8");
  if (begin % 8 != 0)
    return unexpected("begin", begin, "a multiple of 8");
  if (shard.dim(0) % 8 != 0)
    return unexpected("elements of shard", shard.dim(0), "a multiple of 8");
  return {};
}

std::string qwen::cuda::unsupportedReason(const EmbeddingShardArgs &args) {
  return firstOf(
      {floatReason("shard", args.shard), tokensReason(args.ids.dim(0), 32),
       partOfTableReason(args.shard, args.begin, args.out.dim(1)),
       startReason("shard", args.shard), rowsReason("out", args.out)});
}

std::string qwen::cuda::unsupportedReason(const EmbeddingGradShardArgs &args) {
  return firstOf(
      {floatReason("dout", args.dout), tokensReason(args.ids.dim(0), 32),
       partOfTableReason(args.shard, args.begin, args.dout.dim(1)),
       startReason("shard", args.shard), rowsReason("dout", args.dout)});
}

std::string qwen::cuda::unsupportedReason(const RopeAnglesArgs &args) {
  if (args.angles.dtype != DType::F32)
    return unexpected("angles", dtypeName(args.angles.dtype), "f32");
  if (args.angles.dim(1) > 2 * maxFrequencies)
    return unexpected("rotary width", args.angles.dim(1),
                      fmt::format("at most {}", 2 * maxFrequencies));
  return {};
}

std::string qwen::cuda::unsupportedReason(const FillArgs &) { return {}; }
std::string qwen::cuda::unsupportedReason(const CopyArgs &) { return {}; }

int64_t qwen::cuda::workspaceBytes(const EmbeddingArgs &) { return 0; }

int64_t qwen::cuda::workspaceBytes(const EmbeddingGradArgs &args) {
  return carvedBytes<SortedTokens>(args);
}

int64_t qwen::cuda::workspaceBytes(const EmbeddingShardArgs &) { return 0; }

int64_t qwen::cuda::workspaceBytes(const EmbeddingGradShardArgs &args) {
  return carvedBytes<SortedTokens>(args);
}

int64_t qwen::cuda::workspaceBytes(const RopeAnglesArgs &) { return 0; }
int64_t qwen::cuda::workspaceBytes(const FillArgs &) { return 0; }
int64_t qwen::cuda::workspaceBytes(const CopyArgs &) { return 0; }

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

/// Every tensor of a list has the first one's type and, unless it is a slice,
/// an aligned start.
template <typename Buffers>
static std::string listReason(const char *name, const Buffers &tensors,
                              bool sliced = false) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::string entry = fmt::format("{}[{}]", name, i);
    if (tensors[i].dtype != tensors[0].dtype)
      return entry + " is " + dtypeName(tensors[i].dtype) + ", expected " +
             dtypeName(tensors[0].dtype) + " as " + name + "[0]";
    if (std::string reason =
            firstOf({floatReason(entry, tensors[i]),
                     sliced ? "" : startReason(entry, tensors[i])});
        !reason.empty())
      return reason;
  }
  return {};
}

std::string qwen::cuda::unsupportedReason(const GradNormArgs &args) {
  return firstOf(
      {listReason("grads", args.grads), floatReason("hyper", args.hyper)});
}

std::string qwen::cuda::unsupportedReason(const GradNormLocalArgs &args) {
  return listReason("grads", args.grads);
}

std::string qwen::cuda::unsupportedReason(const GradNormCombineArgs &args) {
  return floatReason("hyper", args.hyper);
}

std::string qwen::cuda::unsupportedReason(const AdamWArgs &args) {
  bool sliced = !args.firstElements.empty();
  return firstOf({listReason("params", args.params, sliced),
                  listReason("grads", args.grads, sliced),
                  listReason("moments1", args.moments1, sliced),
                  listReason("moments2", args.moments2, sliced),
                  listReason("masters", args.masters, sliced)});
}

template <typename Args> static int64_t gradNormBytes(const Args &args) {
  Carver carver;
  GradNormScratch scratch(carver, args.grads);
  return carver.bytes();
}

int64_t qwen::cuda::workspaceBytes(const GradNormArgs &args) {
  return gradNormBytes(args);
}

int64_t qwen::cuda::workspaceBytes(const GradNormLocalArgs &args) {
  return gradNormBytes(args);
}

int64_t qwen::cuda::workspaceBytes(const GradNormCombineArgs &) { return 0; }
int64_t qwen::cuda::workspaceBytes(const AdamWArgs &) { return 0; }

template <typename Buffers>
static int64_t tensorTableBytes(const Buffers &tensors, int64_t block,
                                bool sliced = false) {
  return roundUp(carvedBytes<TensorTable>(tensors, block, sliced),
                 deviceAlignment);
}

int64_t qwen::cuda::tableBytes(const GradNormArgs &args) {
  return tensorTableBytes(args.grads, gradNormBlock);
}

int64_t qwen::cuda::tableBytes(const GradNormLocalArgs &args) {
  return tensorTableBytes(args.grads, gradNormBlock);
}

int64_t qwen::cuda::tableBytes(const AdamWArgs &args) {
  // The slices of a bucket are a rank's own: no plan knows how many there are.
  if (!args.buckets.empty())
    return 0;
  return tensorTableBytes(args.params, adamWBlock, !args.firstElements.empty());
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

std::string qwen::cuda::unsupportedReason(const AllGatherArgs &) { return {}; }

std::string qwen::cuda::unsupportedReason(const ReduceScatterArgs &args) {
  if (args.full.dtype != DType::F32)
    return unexpected("full", dtypeName(args.full.dtype), "f32");
  return firstOf({floatReason("shard", args.shard),
                  startReason("full", args.full),
                  startReason("shard", args.shard)});
}

int64_t qwen::cuda::workspaceBytes(const AllGatherArgs &) { return 0; }
int64_t qwen::cuda::workspaceBytes(const ReduceScatterArgs &) { return 0; }
