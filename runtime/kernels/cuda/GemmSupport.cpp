//===- GemmSupport.cpp - What the CUDA GEMM takes --------------*- C++ -*-===//
//
// The types beyond the contract that a product needs, its scratch, and its
// shape as tuning tables know it.
//
//===----------------------------------------------------------------------===//

#include "GemmShape.h"
#include "Reasons.h"
#include "qwen/Plan/CudaKernels.h"

using namespace qwen;
using namespace qwen::cuda;

std::string qwen::cuda::toString(const GemmShape &shape) {
  return fmt::format("{}x{}x{} {}{} {} {} {}", shape.m, shape.n, shape.k,
                     shape.transposeA ? 't' : 'n', shape.transposeB ? 't' : 'n',
                     dtypeName(shape.operands), dtypeName(shape.result),
                     shape.adds ? "add" : "set");
}

GemmShape qwen::cuda::gemmShape(const GemmArgs &args) {
  return {.m = args.c.dim(0),
          .n = args.c.dim(1),
          .k = args.a.dim(args.transposeA ? 0 : 1),
          .transposeA = args.transposeA,
          .transposeB = args.transposeB,
          .adds = args.accumulate || !args.addend.empty(),
          .operands = args.a.dtype,
          .result = args.c.dtype};
}

GemmShape qwen::cuda::tunedShape(GemmShape shape) {
  shape.adds |= dtypeBytes(shape.result) > dtypeBytes(shape.operands);
  return shape;
}

std::string qwen::cuda::unsupportedReason(const GemmArgs &args) {
  if (std::string reason =
          firstOf({floatReason("a", args.a), floatReason("b", args.b),
                   floatReason("c", args.c)});
      !reason.empty())
    return reason;
  // The library's kernels for this form round the product before they add.
  if (args.transposeA && args.c.dtype == DType::BF16 && gemmShape(args).adds)
    return "a product with a transposed left operand is added to bf16, "
           "expected f32";
  return {};
}

int64_t qwen::cuda::workspaceBytes(const GemmArgs &) {
  return productWorkspaceBytes;
}
