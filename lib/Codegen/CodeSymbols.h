//===- CodeSymbols.h - What generated functions take -----------*- C++ -*-===//
//
// Each lowered function carries its kernel.code_symbol until the module is
// compiled; then the table of all goes into the kernel.binary.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_CODEGEN_CODESYMBOLS_H
#define QWEN_LIB_CODEGEN_CODESYMBOLS_H

#include "dialects/Kernel/Kernel.h"

#include "mlir/IR/BuiltinOps.h"

namespace qwen {

/// How a kernel is launched on a GPU; zeros on the CPU.
struct LaunchGeometry {
  int64_t threads = 0, blocks = 0, sharedBytes = 0;
};

/// Attaches what calls of `group` must agree with to its lowered function.
/// `alignments` has the bytes that each operand's address is a multiple of.
void setCodeSymbol(mlir::Operation *function, kernel::GroupFunctionOp group,
                   llvm::ArrayRef<int64_t> alignments,
                   const LaunchGeometry &geometry);

/// Size of one element of each operand: the least that is true of any call.
llvm::SmallVector<int64_t> naturalAlignments(kernel::GroupFunctionOp group);

/// Takes the attributes off the functions, in their order.
llvm::SmallVector<mlir::Attribute> takeCodeSymbols(mlir::ModuleOp groups);

} // namespace qwen

#endif // QWEN_LIB_CODEGEN_CODESYMBOLS_H
