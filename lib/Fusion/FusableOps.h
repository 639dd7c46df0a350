//===- FusableOps.h - Which ops a group may hold ---------------*- C++ -*-===//
//
// The one classification of ops that shape normalisation, clustering and the
// verifier of the fusion stage share.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_FUSION_FUSABLEOPS_H
#define QWEN_LIB_FUSION_FUSABLEOPS_H

#include "dialects/Qwen/Qwen.h"

namespace qwen {

/// Ranked tensor type of a value that the caller knows to be a tensor.
inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

/// arith or math op that maps over the elements of float tensors, qwen.sigmoid,
/// qwen.softplus. Not constants.
bool isElementwise(mlir::Operation *op);

/// A tensor constant with one value everywhere.
bool isSplatConstant(mlir::Operation *op);

/// Whether a group may hold the op: elementwise, splat constant, broadcast,
/// rope, row sum or column sum.
bool isFusable(mlir::Operation *op);

/// Sum over the last dimension alone.
bool isRowSum(mlir::Operation *op);

/// Sum over all dimensions but the last.
bool isColumnSum(mlir::Operation *op);

/// reshape, split, concat: the same bytes, seen otherwise.
bool isView(mlir::Operation *op);

/// Whether the value can lie in memory (f32, bf16, f64, i32; not i1).
bool isStorable(mlir::Value value);

/// Whether the dimensions are 0, 1, … of the result: the broadcast repeats each
/// element along new trailing dimensions.
bool isRowBroadcast(BroadcastOp op);

/// Clones an elementwise op for operands of another shape.
mlir::Value cloneElementwise(mlir::OpBuilder &builder, mlir::Operation *op,
                             mlir::ValueRange operands,
                             llvm::ArrayRef<int64_t> shape);

/// The constant's value repeated in another shape.
mlir::Value cloneSplat(mlir::OpBuilder &builder, mlir::Operation *constant,
                       llvm::ArrayRef<int64_t> shape);

} // namespace qwen

#endif // QWEN_LIB_FUSION_FUSABLEOPS_H
