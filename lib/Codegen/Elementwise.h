//===- Elementwise.h - One elementwise op on scalars or vectors -*- C++ -*-===//

#ifndef QWEN_LIB_CODEGEN_ELEMENTWISE_H
#define QWEN_LIB_CODEGEN_ELEMENTWISE_H

#include "mlir/IR/Builders.h"

namespace qwen {

/// The type in which the generated code holds elements: f32 for bf16 (a number
/// that fits bf16), the type itself otherwise.
mlir::Type computeType(mlir::Type element);

/// Lanes of one vector: 16 elements of up to 32 bits, 8 of 64 bits.
int64_t lanes(mlir::Type compute);

/// `scalarOrVectorLike` with every element equal to `value`.
mlir::Value splat(mlir::OpBuilder &builder, mlir::Location loc,
                  mlir::Type scalarOrVector, double value);

/// The f32 numbers of a bf16 scalar or vector. A word of a vector has two
/// elements, the first one in its lower half: that is one instruction an
/// element on a GPU, where conversions take two for every second one and keep
/// the compiler from rounding in pairs.
mlir::Value widenBf16(mlir::OpBuilder &builder, mlir::Location loc,
                      mlir::Value stored);

/// The nearest bf16 numbers of f32 ones, to be stored, by the GPU's conversion.
mlir::Value narrowToBf16(mlir::OpBuilder &builder, mlir::Location loc,
                         mlir::Value value);

/// Whose instructions the ops will become. On the CPU every op is correctly
/// rounded or a polynomial, bf16 is integer arithmetic. The GPU has
/// instructions for bf16 and for exp2, quotients and roots to 2 units in the
/// last place of f32.
enum class Processor { Cpu, Gpu };

/// The nearest bf16 number of each f32 element, ties to even, as f32; NaN stays
/// NaN.
mlir::Value roundToBf16(mlir::OpBuilder &builder, mlir::Location loc,
                        mlir::Value value, Processor processor);

/// Re-emits the elementwise tensor op `op` (arith, math, qwen.sigmoid or
/// qwen.softplus, arith.constant) on scalars (width 0) or vectors of `width`
/// elements. Fails with an emitted error on an op it does not know.
mlir::FailureOr<mlir::Value>
emitElementwise(mlir::OpBuilder &builder, mlir::Operation &op,
                mlir::ValueRange operands, int64_t width, Processor processor);

} // namespace qwen

#endif // QWEN_LIB_CODEGEN_ELEMENTWISE_H
