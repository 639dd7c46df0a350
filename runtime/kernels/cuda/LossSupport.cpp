//===- LossSupport.cpp - What the CUDA loss takes --------------*- C++ -*-===//
//
// The types beyond the contract that the loss needs, how it cuts its tokens,
// and its scratch.
//
//===----------------------------------------------------------------------===//

#include "LossScratch.h"
#include "Reasons.h"
#include "qwen/Plan/CudaKernels.h"

#include <algorithm>

using namespace qwen;
using namespace qwen::cuda;

/// Logits of a block take at most this: two blocks for 8192 tokens of 248,320
/// logits. Every further block reads and writes dweight once more.
static constexpr int64_t maxLogitsBytes = 2'100'000'000;
/// Rows of logits start at multiples of 128 bytes.
static constexpr int64_t strideUnit = 64;

/// The fewest blocks of at most `most` tokens; a few more where they are then
/// equal, as a shorter last one needs products of its own.
static int64_t blockCount(int64_t tokens, int64_t most) {
  int64_t fewest = ceilDiv(tokens, most);
  for (int64_t blocks = fewest; blocks <= 2 * fewest; ++blocks)
    if (tokens % blocks == 0)
      return blocks;
  return fewest;
}

LossBlocks::LossBlocks(const BufferType &x, const BufferType &weight)
    : tokens(x.dim(0)), hidden(x.dim(1)), vocabulary(weight.dim(0)),
      stride(roundUp(vocabulary, strideUnit)) {
  int64_t most = std::max<int64_t>(maxLogitsBytes / (2 * stride), 1);
  rows = ceilDiv(tokens, blockCount(tokens, most));
}

GemmShape LossBlocks::logits() const {
  return {.m = rows, .n = vocabulary, .k = hidden, .transposeB = true};
}

GemmShape LossBlocks::dx() const {
  return {.m = rows, .n = hidden, .k = vocabulary};
}

GemmShape LossBlocks::dweight(bool accumulate) const {
  return {.m = vocabulary,
          .n = hidden,
          .k = rows,
          .transposeA = true,
          .adds = accumulate,
          .result = DType::F32};
}

template <typename Args> static std::string lossReason(const Args &args) {
  if (args.weight.dim(0) > maxVocabulary)
    return unexpected("number of classes", args.weight.dim(0),
                      fmt::format("at most {}", maxVocabulary));
  return bf16Reason("x", args.x);
}

template <typename Args> static int64_t lossBytes(const Args &args) {
  return carvedBytes<LogitsScratch>(LossBlocks(args.x, args.weight));
}

std::string qwen::cuda::unsupportedReason(const LinearCrossEntropyArgs &args) {
  return lossReason(args);
}
std::string
qwen::cuda::unsupportedReason(const LinearCrossEntropyGradArgs &args) {
  return lossReason(args);
}
int64_t qwen::cuda::workspaceBytes(const LinearCrossEntropyArgs &args) {
  return lossBytes(args);
}
int64_t qwen::cuda::workspaceBytes(const LinearCrossEntropyGradArgs &args) {
  return lossBytes(args);
}
