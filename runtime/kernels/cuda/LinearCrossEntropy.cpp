//===- LinearCrossEntropy.cpp - Loss of the output projection --*- C++ -*-===//
//
// kernel.linear_cross_entropy and kernel.linear_cross_entropy_grad: blocks of
// tokens, whose logits lie in scratch in bf16 and become their own gradients in
// place. Ignored tokens are rows of zeros in the products.
//
//===----------------------------------------------------------------------===//

#include "Blas.h"
#include "Kernels.h"
#include "LossRows.h"
#include "LossScratch.h"

#include <algorithm>

using namespace qwen;
using namespace qwen::cuda;

namespace {

int64_t rowStride(const BufferType &type) {
  return type.dim(0) == 1 ? type.dim(1)
                          : std::max(type.strides[0], type.dim(1));
}

/// The products of a block of tokens that starts at `first`.
struct BlockProducts {
  Product logits, dx, dweight;
};

template <typename Args>
Product logitsProduct(const Args &args, const LossBlocks &blocks,
                      const LogitsScratch &scratch, int64_t first,
                      int64_t rows) {
  Product product{.shape = blocks.logits(),
                  .a = args.x.template as<__nv_bfloat16>() +
                       first * rowStride(args.x),
                  .strideA = rowStride(args.x),
                  .b = args.weight.data,
                  .strideB = rowStride(args.weight),
                  .c = scratch.logits,
                  .strideC = blocks.stride,
                  .algorithm = args.logitsAlgorithm};
  product.shape.m = rows;
  return product;
}

Product dxProduct(const LinearCrossEntropyGradArgs &args,
                  const LossBlocks &blocks, const LogitsScratch &scratch,
                  int64_t first, int64_t rows) {
  Product product{.shape = blocks.dx(),
                  .a = scratch.logits,
                  .strideA = blocks.stride,
                  .b = args.weight.data,
                  .strideB = rowStride(args.weight),
                  .c = args.dx.as<__nv_bfloat16>() + first * rowStride(args.dx),
                  .strideC = rowStride(args.dx),
                  .algorithm = args.dxAlgorithm};
  product.shape.m = rows;
  return product;
}

Product dweightProduct(const LinearCrossEntropyGradArgs &args,
                       const LossBlocks &blocks, const LogitsScratch &scratch,
                       int64_t first, int64_t rows) {
  Product product{.shape = blocks.dweight(args.accumulate || first > 0),
                  .a = scratch.logits,
                  .strideA = blocks.stride,
                  .b = args.x.as<__nv_bfloat16>() + first * rowStride(args.x),
                  .strideB = rowStride(args.x),
                  .c = args.dweight.data,
                  .strideC = rowStride(args.dweight),
                  .algorithm = args.dweightAlgorithm};
  product.shape.k = rows;
  return product;
}

template <typename Args>
LossRows lossRows(const Args &args, const LossBlocks &blocks,
                  const LogitsScratch &scratch, int64_t first, int64_t rows) {
  LossRows p{};
  p.x = args.x.template as<__nv_bfloat16>() + first * rowStride(args.x);
  p.weight = args.weight.template as<__nv_bfloat16>();
  p.strideX = rowStride(args.x);
  p.strideWeight = rowStride(args.weight);
  p.hidden = blocks.hidden;
  p.vocabulary = blocks.vocabulary;
  p.rows = rows;
  p.labels = args.labels.template as<int32_t>() + first;
  p.ignoreIndex = args.ignoreIndex;
  p.nll = args.nll.template as<float>() + first;
  p.targets = scratch.targets;
  p.logits = reinterpret_cast<__nv_bfloat16 *>(scratch.logits);
  p.stride = blocks.stride;
  return p;
}

/// Calls body(first, rows) for each block; stops at the first error.
template <typename Error, typename F>
Error forEachBlock(const LossBlocks &blocks, Error none, F &&body) {
  for (int64_t first = 0; first < blocks.tokens; first += blocks.rows) {
    Error error = body(first, std::min(blocks.rows, blocks.tokens - first));
    if constexpr (std::is_same_v<Error, Status>) {
      if (!error.ok())
        return error;
    } else {
      if (error != none)
        return error;
    }
  }
  return none;
}

} // namespace

//===----------------------------------------------------------------------===//
// Loss
//===----------------------------------------------------------------------===//

Status qwen::cuda::prepare(const LinearCrossEntropyArgs &args, Blas &blas) {
  LossBlocks blocks(args.x, args.weight);
  Carver carver;
  LogitsScratch scratch(carver, blocks);
  return forEachBlock(blocks, okStatus(), [&](int64_t first, int64_t rows) {
    return blas.prepare(logitsProduct(args, blocks, scratch, first, rows));
  });
}

cudaError_t qwen::cuda::launch(const LinearCrossEntropyArgs &args,
                               const LaunchContext &context) {
  LossBlocks blocks(args.x, args.weight);
  Carver carver(context.workspace.data());
  LogitsScratch scratch(carver, blocks);
  std::span library(scratch.product, size_t(productWorkspaceBytes));
  return forEachBlock(blocks, cudaSuccess, [&](int64_t first, int64_t rows) {
    LossRows p = lossRows(args, blocks, scratch, first, rows);
    if (cudaError_t error = formTargets(p, context.stream))
      return error;
    if (cudaError_t error =
            context.blas->run(logitsProduct(args, blocks, scratch, first, rows),
                              library, context.stream))
      return error;
    return formLosses(p, context.stream);
  });
}

//===----------------------------------------------------------------------===//
// Loss and gradients
//===----------------------------------------------------------------------===//

Status qwen::cuda::prepare(const LinearCrossEntropyGradArgs &args, Blas &blas) {
  LossBlocks blocks(args.x, args.weight);
  Carver carver;
  LogitsScratch scratch(carver, blocks);
  return forEachBlock(blocks, okStatus(), [&](int64_t first, int64_t rows) {
    for (auto product :
         {logitsProduct<LinearCrossEntropyGradArgs>, dxProduct, dweightProduct})
      QWEN_RETURN_IF_ERROR(
          blas.prepare(product(args, blocks, scratch, first, rows)));
    return okStatus();
  });
}

cudaError_t qwen::cuda::launch(const LinearCrossEntropyGradArgs &args,
                               const LaunchContext &context) {
  LossBlocks blocks(args.x, args.weight);
  Carver carver(context.workspace.data());
  LogitsScratch scratch(carver, blocks);
  std::span library(scratch.product, size_t(productWorkspaceBytes));
  return forEachBlock(blocks, cudaSuccess, [&](int64_t first, int64_t rows) {
    auto run = [&](auto product) {
      return context.blas->run(product(args, blocks, scratch, first, rows),
                               library, context.stream);
    };
    LossRows p = lossRows(args, blocks, scratch, first, rows);
    p.dnll = args.dnll.as<float>() + first;
    if (cudaError_t error = formTargets(p, context.stream))
      return error;
    if (cudaError_t error = run(logitsProduct<LinearCrossEntropyGradArgs>))
      return error;
    if (cudaError_t error = formLosses(p, context.stream))
      return error;
    if (cudaError_t error = run(dxProduct))
      return error;
    return run(dweightProduct);
  });
}
