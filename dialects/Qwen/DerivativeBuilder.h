//===- DerivativeBuilder.h - Arithmetic of derivative rules ----*- C++ -*-===//
//
// The few builders that derivative rules of qwen, arith and math ops share.
// Rules compute in float32 (float64 for f64) and leave the rounding of a
// cotangent to the caller, so that a sum of cotangents is rounded once.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_DIALECTS_QWEN_DERIVATIVEBUILDER_H
#define QWEN_DIALECTS_QWEN_DERIVATIVEBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"

namespace qwen {

/// `type`, a ranked tensor or a float, with elements that accumulate: f64 for
/// f64, else f32.
mlir::Type widened(mlir::Type type);

/// Builds wide arithmetic at one location. Operands may be narrow: each is
/// extended first.
class DerivativeBuilder {
public:
  DerivativeBuilder(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder), loc(loc) {}

  /// `value` with wide elements.
  mlir::Value widen(mlir::Value value);
  /// `value` with `element` elements: extended, rounded or itself.
  mlir::Value convert(mlir::Value value, mlir::Type element);
  /// Every element of the wide form of `type` is `number`.
  mlir::Value constant(mlir::Type type, double number);

  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, mlir::Value b);
  mlir::Value neg(mlir::Value a);
  mlir::Value scale(mlir::Value a, double factor);
  /// number - a.
  mlir::Value subFrom(double number, mlir::Value a);

  mlir::OpBuilder &builder;
  mlir::Location loc;
};

} // namespace qwen

#endif // QWEN_DIALECTS_QWEN_DERIVATIVEBUILDER_H
