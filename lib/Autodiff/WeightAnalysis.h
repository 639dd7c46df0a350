//===- WeightAnalysis.h - Which values are weights -------------*- C++ -*-===//
//
// Cotangents of weights accumulate in float32, those of activations have the
// activation's type. A weight is a parameter, a function argument that is one
// at every call, or a view of those.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_AUTODIFF_WEIGHTANALYSIS_H
#define QWEN_LIB_AUTODIFF_WEIGHTANALYSIS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/StringMap.h"

namespace qwen {

class WeightAnalysis {
public:
  explicit WeightAnalysis(mlir::ModuleOp module);

  /// One bit an argument of `func`, true for weights.
  const llvm::BitVector &arguments(mlir::func::FuncOp func) const;

  /// True if `value`, in a function whose weight arguments are `arguments`,
  /// is a weight.
  static bool isWeight(mlir::Value value, const llvm::BitVector &arguments);

private:
  llvm::StringMap<llvm::BitVector> weights;
};

} // namespace qwen

#endif // QWEN_LIB_AUTODIFF_WEIGHTANALYSIS_H
