//===- Gemm.cpp - Matrix products ------------------------------*- C++ -*-===//
//
// kernel.gemm.
//
//===----------------------------------------------------------------------===//

#include "Blas.h"
#include "Kernels.h"

#include <algorithm>

using namespace qwen;
using namespace qwen::cuda;

/// Elements from a row to the next; a single row may carry any stride.
static int64_t rowStride(const BufferType &type) {
  return type.dim(0) == 1 ? type.dim(1)
                          : std::max(type.strides[0], type.dim(1));
}

static Product productOf(const GemmArgs &args) {
  Product product{.shape = gemmShape(args),
                  .a = args.a.data,
                  .strideA = rowStride(args.a),
                  .b = args.b.data,
                  .strideB = rowStride(args.b),
                  .c = args.c.data,
                  .strideC = rowStride(args.c),
                  .algorithm = args.algorithm};
  for (const ConstBuffer &addend : args.addend) {
    product.addend = addend.data;
    product.strideAddend = rowStride(addend);
  }
  return product;
}

Status qwen::cuda::prepare(const GemmArgs &args, Blas &blas) {
  return blas.prepare(productOf(args));
}

cudaError_t qwen::cuda::launch(const GemmArgs &args,
                               const LaunchContext &context) {
  return context.blas->run(productOf(args), context.workspace, context.stream);
}
