//===- Qwen.h - The qwen dialect -------------------------------*- C++ -*-===//
//
// Ops and interfaces of the tensor-level dialect; see QwenOps.td.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_DIALECTS_QWEN_QWEN_H
#define QWEN_DIALECTS_QWEN_QWEN_H

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

#include "dialects/Qwen/QwenDialect.h.inc"
#include "dialects/Qwen/QwenInterfaces.h.inc"
#define GET_OP_CLASSES
#include "dialects/Qwen/QwenOps.h.inc"

namespace qwen {

/// Attaches derivative rules to the arith and math ops that models use.
void registerArithDerivatives(mlir::DialectRegistry &registry);

/// Bytes of all elements of a static shaped type.
int64_t tensorBytes(mlir::Type type);

} // namespace qwen

#endif // QWEN_DIALECTS_QWEN_QWEN_H
