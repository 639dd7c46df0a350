//===- PersistentMemory.h - Places that outlive a program ------*- C++ -*-===//
//
// Layout of parameters, their gradients and optimizer state, and of inputs and
// outputs.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_MEMORY_PERSISTENTMEMORY_H
#define QWEN_LIB_MEMORY_PERSISTENTMEMORY_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

namespace qwen {

/// Bytes of each class by its name ("parameter", "gradient", …).
using ClassSizes = llvm::StringMap<int64_t>;

/// Sets `qwen.place` on every `qwen.parameter`, or `qwen.bucket` where there
/// are several ranks; adds the classes' sizes.
llvm::LogicalResult placeParameters(mlir::ModuleOp module, ClassSizes &sizes);

/// Sets `qwen.offset` on every argument of a program; adds the sizes of the
/// classes "input" and "output".
llvm::LogicalResult placePorts(mlir::ModuleOp module, ClassSizes &sizes);

} // namespace qwen

#endif // QWEN_LIB_MEMORY_PERSISTENTMEMORY_H
