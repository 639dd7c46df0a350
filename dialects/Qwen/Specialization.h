//===- Specialization.h - Functions that are copies of others --*- C++ -*-===//
//
// A function that is copied for some of its calls keeps the original's name in
// `qwen.specializes`, so that whatever goes by names sees no copies.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_DIALECTS_QWEN_SPECIALIZATION_H
#define QWEN_DIALECTS_QWEN_SPECIALIZATION_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace qwen {

inline constexpr llvm::StringLiteral specializesAttr = "qwen.specializes";

/// The name of the function, or of the one that it is a copy of.
inline mlir::StringAttr originalName(mlir::func::FuncOp func) {
  auto original = func->getAttrOfType<mlir::StringAttr>(specializesAttr);
  return original ? original : func.getSymNameAttr();
}

/// Inserts a copy of `func` behind it; its name is made unique.
inline mlir::func::FuncOp specialize(mlir::func::FuncOp func,
                                     llvm::StringRef name,
                                     mlir::SymbolTable &symbols) {
  mlir::func::FuncOp copy = func.clone();
  copy->setAttr(specializesAttr, originalName(func));
  copy.setName(name);
  symbols.insert(copy, std::next(func->getIterator()));
  return copy;
}

} // namespace qwen

#endif // QWEN_DIALECTS_QWEN_SPECIALIZATION_H
