//===- Gemm.cpp - Matrix product -------------------------------*- C++ -*-===//
//
// kernel.gemm. Not through a BLAS library: OpenBLAS's float32 kernels for AVX2
// machines sum rows 0-5 and rows 6-11 of a group of twelve in different ways,
// so that a token's result would depend on its place in the batch.
//
//===----------------------------------------------------------------------===//

#include "MatrixProduct.h"
#include "Storage.h"
#include "runtime/kernels/cpu/Kernels.h"

using namespace qwen;
using namespace qwen::cpu;

void qwen::cpu::launch(const GemmArgs &args, const LaunchContext &context) {
  MatrixProduct product{
      .m = args.c.dim(0),
      .n = args.c.dim(1),
      .k = args.transposeA ? args.a.dim(0) : args.a.dim(1),
      .a = {args.a.data, args.a.dtype, rowStride(args.a), args.transposeA},
      .b = {args.b.data, args.b.dtype, rowStride(args.b), args.transposeB},
      .c = args.c.data,
      .dtype = args.c.dtype,
      .stride = rowStride(args.c),
  };
  if (args.accumulate)
    product.start = {args.c.data, args.c.dtype, rowStride(args.c)};
  for (const ConstBuffer &addend : args.addend)
    product.start = {addend.data, addend.dtype, rowStride(addend)};
  withWide(args.a.dtype, [&](auto tag) {
    multiply<decltype(tag)>(product, context.workspace.data());
  });
}
