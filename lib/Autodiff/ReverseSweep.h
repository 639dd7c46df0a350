//===- ReverseSweep.h - Backward ops of one function -----------*- C++ -*-===//
//
// Walks a function's ops from last to first and appends, at its end, the ops
// that compute cotangents.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_AUTODIFF_REVERSESWEEP_H
#define QWEN_LIB_AUTODIFF_REVERSESWEEP_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace qwen {

class DerivedFunctions;

class ReverseSweep {
public:
  /// `varying` says which arguments of `func` depend on parameters, `weights`
  /// which are weights.
  ReverseSweep(mlir::func::FuncOp func, DerivedFunctions &derived,
               llvm::BitVector varying, llvm::BitVector weights);

  /// Declares a cotangent of `value`, which the function computes or takes.
  void seed(mlir::Value value, mlir::Value cotangent);

  /// Appends the backward ops. Calls that need a derivative are replaced by
  /// calls of forward functions.
  llvm::LogicalResult run();

  /// The cotangent of a varying argument; null if the seeds do not depend on
  /// it. To be called after run(), once an argument.
  mlir::Value takeArgumentCotangent(unsigned argument);

  /// Builder at the end of the function, before its terminator.
  mlir::OpBuilder &builder() { return build; }

  /// The ops of the function before the sweep, with calls replaced.
  llvm::ArrayRef<mlir::Operation *> primalOps() const { return primal; }

private:
  void markVarying(mlir::Operation *op);
  void addContribution(mlir::Value value, mlir::Value cotangent);
  mlir::Value takeCotangent(mlir::Value value);
  llvm::LogicalResult visit(mlir::Operation *&op);
  llvm::LogicalResult visitCall(mlir::Operation *&op,
                                mlir::ValueRange resultCotangents);
  llvm::LogicalResult applyRule(mlir::Operation *op,
                                mlir::ValueRange resultCotangents);

  mlir::func::FuncOp func;
  DerivedFunctions &derived;
  llvm::BitVector weights;
  mlir::OpBuilder build;
  llvm::SmallVector<mlir::Operation *> primal;
  llvm::DenseSet<mlir::Value> varying;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value, 2>> contributions;
};

} // namespace qwen

#endif // QWEN_LIB_AUTODIFF_REVERSESWEEP_H
