//===- FusableOps.cpp - Which ops a group may hold ------------------------===//

#include "FusableOps.h"
#include "Passes.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace qwen;

bool qwen::isElementwise(Operation *op) {
  if (op->getNumResults() != 1 || op->getNumOperands() == 0 ||
      op->getNumRegions() != 0)
    return false;
  // Generated code knows floats and the results of comparing them.
  auto isTensor = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && (isa<FloatType>(tensor.getElementType()) ||
                      tensor.getElementType().isInteger(1));
  };
  if (!llvm::all_of(op->getOperandTypes(), isTensor) ||
      !isTensor(op->getResult(0).getType()))
    return false;
  if (isa<SigmoidOp, SoftplusOp>(op))
    return true;
  return isa_and_nonnull<arith::ArithDialect, math::MathDialect>(
             op->getDialect()) &&
         OpTrait::hasElementwiseMappableTraits(op);
}

bool qwen::isSplatConstant(Operation *op) {
  auto constant = dyn_cast<arith::ConstantOp>(op);
  return constant && isa<SplatElementsAttr>(constant.getValue()) &&
         isa<RankedTensorType>(constant.getType());
}

bool qwen::isRowSum(Operation *op) {
  auto sum = dyn_cast<ReduceSumOp>(op);
  if (!sum)
    return false;
  int64_t rank = tensorType(sum.getX()).getRank();
  return rank >= 2 && sum.getDims().size() == 1 && sum.getDims()[0] == rank - 1;
}

bool qwen::isColumnSum(Operation *op) {
  auto sum = dyn_cast<ReduceSumOp>(op);
  if (!sum)
    return false;
  int64_t rank = tensorType(sum.getX()).getRank();
  if (rank < 2 || static_cast<int64_t>(sum.getDims().size()) != rank - 1)
    return false;
  return !llvm::is_contained(sum.getDims(), rank - 1);
}

bool qwen::isFusable(Operation *op) {
  return isElementwise(op) || isSplatConstant(op) ||
         isa<BroadcastOp, RopeOp>(op) || isRowSum(op) || isColumnSum(op);
}

bool qwen::isView(Operation *op) {
  return isa<ReshapeOp, SplitOp, ConcatOp>(op);
}

bool qwen::isStorable(Value value) {
  Type element = tensorType(value).getElementType();
  return element.isF32() || element.isBF16() || element.isF64() ||
         element.isInteger(32);
}

bool qwen::isRowBroadcast(BroadcastOp op) {
  if (op.getDims().empty())
    return false;
  for (auto [i, dim] : llvm::enumerate(op.getDims()))
    if (static_cast<int64_t>(i) != dim)
      return false;
  return true;
}

Value qwen::cloneElementwise(OpBuilder &builder, Operation *op,
                             ValueRange operands, ArrayRef<int64_t> shape) {
  Type type = tensorType(op->getResult(0)).clone(shape);
  return builder
      .create(op->getLoc(), op->getName().getIdentifier(), operands, {type},
              op->getAttrs())
      ->getResult(0);
}

Value qwen::cloneSplat(OpBuilder &builder, Operation *constant,
                       ArrayRef<int64_t> shape) {
  auto value =
      cast<SplatElementsAttr>(cast<arith::ConstantOp>(constant).getValue());
  auto type = cast<RankedTensorType>(value.getType()).clone(shape);
  return arith::ConstantOp::create(
      builder, constant->getLoc(),
      DenseElementsAttr::get(type, value.getSplatValue<Attribute>()));
}
