//===- OperandAlignment.h - Alignment of group operands --------*- C++ -*-===//

#ifndef QWEN_LIB_CODEGEN_OPERANDALIGNMENT_H
#define QWEN_LIB_CODEGEN_OPERANDALIGNMENT_H

#include "dialects/Kernel/Kernel.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

namespace qwen {

/// Of what power of two the operands of the group calls in a module are
/// multiples, wherever buffers will lie: buffers start at multiples of 64
/// bytes, views add their offsets, function arguments are what callers pass.
class OperandAlignment {
public:
  explicit OperandAlignment(mlir::ModuleOp module);

  /// For each operand of the group what holds in all calls of it; the alignment
  /// of a buffer where nothing calls it.
  llvm::SmallVector<int64_t> of(kernel::GroupFunctionOp group);

private:
  int64_t of(mlir::Value buffer);
  int64_t compute(mlir::Value buffer);

  llvm::StringMap<llvm::SmallVector<kernel::GroupOp>> calls;
  llvm::StringMap<llvm::SmallVector<mlir::func::CallOp>> callers;
  /// Parameters that lie behind others in a stack.
  llvm::DenseSet<mlir::Attribute> stacked;
  llvm::DenseMap<mlir::Value, int64_t> known;
};

} // namespace qwen

#endif // QWEN_LIB_CODEGEN_OPERANDALIGNMENT_H
