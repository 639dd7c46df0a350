//===- Residuals.h - What the backward reads of the forward ----*- C++ -*-===//
//
// A function that computes both its results and its cotangents is cut in two:
// some forward values are kept, the others are computed again.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_AUTODIFF_RESIDUALS_H
#define QWEN_LIB_AUTODIFF_RESIDUALS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

namespace qwen {

struct DerivedFunction;

/// A function whose ops from `primal` compute `results`, its results before
/// differentiation, and whose other ops compute cotangents from the arguments
/// after the first `primalArguments` and from primal values.
struct JointFunction {
  mlir::func::FuncOp func;
  unsigned primalArguments;
  llvm::ArrayRef<mlir::Operation *> primal;
  llvm::SmallVector<mlir::Value> results;

  /// The other ops, in order.
  llvm::SmallVector<mlir::Operation *> backwardOps() const;
};

/// Erases backward ops that nothing uses.
void eraseDeadBackwardOps(const JointFunction &joint);

/// Makes backward ops of a joint function that stays one read only kept values,
/// arguments and parameters, by repeating the ops in between.
void recomputeInPlace(const JointFunction &joint);

/// Splits a joint function that returns cotangents. `joint.func` becomes the
/// forward function; the backward one is returned, not yet in a module, and
/// `derived.operands` says what it takes. `cotangentResults` has, for each
/// argument after the first `primalArguments`, the result that it belongs to.
mlir::func::FuncOp splitJointFunction(const JointFunction &joint,
                                      llvm::ArrayRef<unsigned> cotangentResults,
                                      DerivedFunction &derived);

} // namespace qwen

#endif // QWEN_LIB_AUTODIFF_RESIDUALS_H
