//===- Qwen.h - The qwen dialect -------------------------------*- C++ -*-===//
//
// Ops and interfaces of the tensor-level dialect; see QwenOps.td.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_DIALECTS_QWEN_QWEN_H
#define QWEN_DIALECTS_QWEN_QWEN_H

#include "qwen/Plan/Buffer.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace qwen {

/// Bytes of all elements of a static shaped type.
int64_t tensorBytes(mlir::Type type);
/// Bytes of all operands and results of an op.
int64_t touchedBytes(mlir::Operation *op);

/// The type in which values of `element` accumulate: f64 for f64, else f32.
mlir::Type wideType(mlir::Type element);

/// The type of several parameters stacked along dimension 0 (the type itself
/// for one). Null, with an error emitted at `op`, where a name is not a
/// `qwen.parameter` or the types do not stack.
mlir::RankedTensorType
stackedParameterType(mlir::Operation *op, mlir::ArrayAttr parameters,
                     mlir::SymbolTableCollection &symbolTable);

/// Attaches derivative rules to the arith and math ops that models use.
void registerArithDerivatives(mlir::DialectRegistry &registry);

namespace detail {
llvm::LogicalResult verifyStaticTensors(mlir::Operation *op);
} // namespace detail

template <typename ConcreteType>
class StaticTensors
    : public mlir::OpTrait::TraitBase<ConcreteType, StaticTensors> {
public:
  static llvm::LogicalResult verifyTrait(mlir::Operation *op) {
    return detail::verifyStaticTensors(op);
  }
};

template <typename ConcreteType>
class TypeRule : public mlir::OpTrait::TraitBase<ConcreteType, TypeRule> {
public:
  static llvm::LogicalResult verifyTrait(mlir::Operation *op) {
    return llvm::cast<ConcreteType>(op).verifyTypes();
  }
};

} // namespace qwen

#include "dialects/Qwen/QwenDialect.h.inc"
#include "dialects/Qwen/QwenInterfaces.h.inc"
#define GET_OP_CLASSES
#include "dialects/Qwen/QwenOps.h.inc"

#endif // QWEN_DIALECTS_QWEN_QWEN_H
