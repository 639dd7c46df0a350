//===- LowerToLLVM.h - From lowered groups to LLVM IR ----------*- C++ -*-===//
//
// What the CPU and the GPU have in common between the emitters and LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_CODEGEN_LOWERTOLLVM_H
#define QWEN_LIB_CODEGEN_LOWERTOLLVM_H

#include "mlir/IR/BuiltinOps.h"

#include <memory>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace qwen {

/// The passes that turn the arithmetic and control flow of the nested module
/// into the LLVM dialect.
void buildToLLVMDialect(mlir::OpPassManager &pm);

/// Replaces the f32 functions by polynomials, so that vectors stay vectors; f64
/// ones become calls of the C library.
mlir::LogicalResult approximateMath(mlir::ModuleOp groups);

/// Null with an emitted error where something has no translation.
std::unique_ptr<llvm::Module> translateGroups(mlir::ModuleOp groups,
                                              llvm::LLVMContext &context);

} // namespace qwen

#endif // QWEN_LIB_CODEGEN_LOWERTOLLVM_H
