//===- GraphBuilder.h - Named ops of a model graph -------------*- C++ -*-===//
//
// The vocabulary in which the layers are written: each method builds one step
// and gives its value a name, which the printed graph shows. C++ leaves the
// order of arguments open, so steps whose order shows are not nested.
//
// A chain of elementwise maths is computed wide (f32 for bf16 models): `widen`
// at its inputs, `narrow` once at its output.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_MODELS_GRAPHBUILDER_H
#define QWEN_MODELS_GRAPHBUILDER_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace qwen {

class GraphBuilder {
public:
  /// `element` is the model's dtype: f32, bf16 or f64.
  GraphBuilder(mlir::OpBuilder &builder, mlir::Type element);

  mlir::OpBuilder &ops() { return builder; }
  mlir::Type elementType() const { return element; }
  mlir::Type wideElementType() const { return wide; }

  mlir::RankedTensorType tensor(llvm::ArrayRef<int64_t> shape) const;
  mlir::RankedTensorType wideTensor(llvm::ArrayRef<int64_t> shape) const;
  mlir::RankedTensorType indexTensor(llvm::ArrayRef<int64_t> shape) const;
  /// A location that names a value.
  mlir::Location name(llvm::StringRef name) const;

  // Roundings.
  mlir::Value widen(mlir::Value x);
  mlir::Value narrow(llvm::StringRef name, mlir::Value x);

  // Projections and shapes.
  mlir::Value linear(llvm::StringRef name, mlir::Value x, mlir::Value w);
  mlir::Value reshape(llvm::StringRef name, mlir::Value x,
                      llvm::ArrayRef<int64_t> shape);
  /// Cuts the last dimension into pieces of the given widths.
  llvm::SmallVector<mlir::Value> split(llvm::StringRef name, mlir::Value x,
                                       llvm::ArrayRef<int64_t> widths);

  // Wide elementwise maths.
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value multiply(mlir::Value a, mlir::Value b, llvm::StringRef name = "");
  mlir::Value negate(mlir::Value x);
  mlir::Value exp(mlir::Value x);
  mlir::Value sigmoid(mlir::Value x);
  mlir::Value softplus(mlir::Value x);
  mlir::Value silu(mlir::Value x);
  /// A vector repeated in each row of [rows, columns].
  mlir::Value repeatRows(mlir::Value vector, int64_t rows);

  /// Normalises over the last dimension with scale offset + w. The result is
  /// narrow, or wide where it starts a chain.
  mlir::Value rmsNorm(llvm::StringRef name, mlir::Value x, mlir::Value w,
                      double epsilon, double offset, bool wideResult = false);
  /// x + r, rounded once.
  mlir::Value residual(llvm::StringRef name, mlir::Value x, mlir::Value r);

private:
  mlir::OpBuilder &builder;
  mlir::Type element;
  mlir::Type wide;
};

} // namespace qwen

#endif // QWEN_MODELS_GRAPHBUILDER_H
