//===- QwenInterfaces.td - Derivative and cost --------------*- tablegen -*-===//

#ifndef QWEN_INTERFACES
#define QWEN_INTERFACES

include "mlir/IR/OpBase.td"

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::qwen";
  let description = [{
    Reverse-mode derivative rule of an op. `qwen` ops implement it beside the op
    (dialects/Qwen/QwenDerivatives.cpp); `arith` and `math` ops through external
    models (dialects/Qwen/ArithDerivatives.cpp).
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the cotangents of the operands from those of the results.
      `resultCotangents` has one value a result, null where the result does not
      influence the loss (never all null). `operandCotangents` comes in with one
      null value an operand; the rule sets those of differentiable operands
      (an unset one means: no dependence). A cotangent has the type of its
      value, but that of a weight operand (linear, embedding, conv, norm …) may
      have f32 elements where the weight is bf16: gradients accumulate in f32.
      The op's own operands and results may be used; they become residuals.
      Fails with an emitted error where no rule exists.
    }], "::llvm::LogicalResult", "buildDerivative",
    (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$resultCotangents,
         "::llvm::SmallVectorImpl<::mlir::Value> &":$operandCotangents)>,
  ];
}

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::qwen";
  let description = [{
    What an op must do at least: the base of model FLOPs, MFU and reports.
  }];
  let methods = [
    InterfaceMethod<"Floating-point operations, a multiply-add counted as two; "
                    "for attention and gated delta of one full-length document.",
                    "int64_t", "getFlops">,
    InterfaceMethod<"Bytes of operands and results, each touched once.",
                    "int64_t", "getBytes", (ins), [{}],
                    [{ return ::qwen::touchedBytes($_op); }]>,
  ];
}

#endif // QWEN_INTERFACES
