//===- QwenDialect.td - The qwen dialect --------------------*- tablegen -*-===//

#ifndef QWEN_DIALECT
#define QWEN_DIALECT

include "mlir/IR/OpBase.td"

def Qwen_Dialect : Dialect {
  let name = "qwen";
  let cppNamespace = "::qwen";
  let summary = "Tensor-level ops of Qwen hybrid models that upstream lacks";
  let description = [{
    The vocabulary of `model.mlir` and of the stages up to `fusion`. Ops work on
    ranked, static tensors of f32, bf16 or f64 (ids and boundaries i32) and have
    no side effects, except those that name parameters. Elementwise maths is
    upstream `arith` and `math` on tensors; `arith.extf` and `arith.truncf` mark
    where values widen and where they round.

    Shape letters: T tokens, H hidden, D head dimension, Hq/Hkv attention heads,
    Hk/Hv gated-delta key/value heads, K/V their head dimensions, S = documents
    + 1 boundary slots, R rotary width.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::func::FuncDialect",
                           "::mlir::math::MathDialect"];
}

#endif // QWEN_DIALECT
