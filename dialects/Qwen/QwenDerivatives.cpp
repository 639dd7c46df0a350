//===- QwenDerivatives.cpp - Derivative rules of qwen ops -----------------===//
//
// One rule an op: the cotangents of its operands from those of its results.
//
//===----------------------------------------------------------------------===//

#include "dialects/Qwen/DerivativeBuilder.h"
#include "dialects/Qwen/Qwen.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace qwen;

namespace {

Type elementOf(Value value) { return getElementTypeOrSelf(value.getType()); }

/// A matrix product whose operands are brought to one element type: `dy` may be
/// wider than the saved operand, and a GEMM takes two operands of one type.
Value product(OpBuilder &builder, Location loc, RankedTensorType type, Value a,
              Value b, bool transposeA, bool transposeB, Type operandElement) {
  DerivativeBuilder d(builder, loc);
  return MatmulOp::create(builder, loc, type, d.convert(a, operandElement),
                          d.convert(b, operandElement), transposeA, transposeB);
}

/// All dimensions of `rank` that are not in `dims`.
SmallVector<int64_t> otherDims(int64_t rank, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> others;
  for (int64_t i = 0; i < rank; ++i)
    if (!llvm::is_contained(dims, i))
      others.push_back(i);
  return others;
}

/// Sum of `x` over `dims`.
Value reduceSum(OpBuilder &builder, Location loc, Value x,
                ArrayRef<int64_t> dims) {
  auto type = cast<RankedTensorType>(x.getType());
  SmallVector<int64_t> shape;
  for (int64_t i : otherDims(type.getRank(), dims))
    shape.push_back(type.getDimSize(i));
  auto result = RankedTensorType::get(shape, type.getElementType());
  return ReduceSumOp::create(builder, loc, result, x, dims);
}

/// `x` repeated to `shape`; its dimensions become `dims`.
Value broadcast(OpBuilder &builder, Location loc, Value x,
                ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
  auto result = RankedTensorType::get(shape, elementOf(x));
  return BroadcastOp::create(builder, loc, result, x, dims);
}

/// The type of `value` with the elements of `cotangent`: where elements are
/// only moved, a wide cotangent stays wide.
RankedTensorType movedType(Value value, Value cotangent) {
  return cast<RankedTensorType>(value.getType()).clone(elementOf(cotangent));
}

} // namespace

//===----------------------------------------------------------------------===//
// Matrix products
//===----------------------------------------------------------------------===//

LogicalResult LinearOp::buildDerivative(OpBuilder &builder,
                                        ValueRange resultCotangents,
                                        SmallVectorImpl<Value> &cotangents) {
  Value dy = resultCotangents[0];
  auto dw = cast<RankedTensorType>(widened(getW().getType()));
  cotangents[0] =
      product(builder, getLoc(), cast<RankedTensorType>(getX().getType()), dy,
              getW(), false, false, elementOf(getW()));
  cotangents[1] = product(builder, getLoc(), dw, dy, getX(), true, false,
                          elementOf(getX()));
  return success();
}

LogicalResult MatmulOp::buildDerivative(OpBuilder &builder,
                                        ValueRange resultCotangents,
                                        SmallVectorImpl<Value> &cotangents) {
  Value dc = resultCotangents[0], a = getA(), b = getB();
  bool ta = getTransposeA(), tb = getTransposeB();
  auto aType = cast<RankedTensorType>(a.getType());
  auto bType = cast<RankedTensorType>(b.getType());
  Type element = aType.getElementType();
  Location loc = getLoc();
  // With A = op(a), B = op(b): dA = dC B^T and dB = A^T dC; a transposed
  // operand's gradient is the transposed product.
  cotangents[0] = ta ? product(builder, loc, aType, b, dc, tb, true, element)
                     : product(builder, loc, aType, dc, b, false, !tb, element);
  cotangents[1] = tb ? product(builder, loc, bType, dc, a, true, ta, element)
                     : product(builder, loc, bType, a, dc, !ta, false, element);
  return success();
}

//===----------------------------------------------------------------------===//
// Elementwise and row-wise
//===----------------------------------------------------------------------===//

LogicalResult SigmoidOp::buildDerivative(OpBuilder &builder,
                                         ValueRange resultCotangents,
                                         SmallVectorImpl<Value> &cotangents) {
  DerivativeBuilder d(builder, getLoc());
  Value slope = d.mul(getY(), d.subFrom(1.0, getY()));
  cotangents[0] = d.mul(resultCotangents[0], slope);
  return success();
}

LogicalResult SoftplusOp::buildDerivative(OpBuilder &builder,
                                          ValueRange resultCotangents,
                                          SmallVectorImpl<Value> &cotangents) {
  // Above the threshold the exact slope is 1, which sigmoid(20) equals to 2e-9,
  // below half a float32 epsilon.
  DerivativeBuilder d(builder, getLoc());
  Value slope = SigmoidOp::create(builder, getLoc(), d.widen(getX()));
  cotangents[0] = d.mul(resultCotangents[0], slope);
  return success();
}

/// With s = offset + w, r = rsqrt(mean(x^2) + eps) and n = x r:
/// dx = r (dy s - n mean(dy s n)), dw = sum over rows of dy n. r is computed
/// again from x, in the primitives that qwen-decompose also writes.
LogicalResult RmsNormOp::buildDerivative(OpBuilder &builder,
                                         ValueRange resultCotangents,
                                         SmallVectorImpl<Value> &cotangents) {
  Location loc = getLoc();
  DerivativeBuilder d(builder, loc);
  auto type = cast<RankedTensorType>(getX().getType());
  ArrayRef<int64_t> shape = type.getShape();
  int64_t last = type.getRank() - 1;
  SmallVector<int64_t> leading = otherDims(type.getRank(), {last});
  double perElement = 1.0 / static_cast<double>(shape[last]);
  auto rowMean = [&](Value v) {
    return d.scale(reduceSum(builder, loc, v, {last}), perElement);
  };
  auto perRow = [&](Value v) {
    return broadcast(builder, loc, v, shape, leading);
  };

  Value x = d.widen(getX());
  Value mean = rowMean(d.mul(x, x));
  Value shifted =
      d.add(mean, d.constant(mean.getType(), getEps().convertToDouble()));
  Value r = perRow(math::RsqrtOp::create(builder, loc, shifted));
  Value n = d.mul(x, r);
  Value w = d.widen(getW());
  double offset = getOffset().convertToDouble();
  Value s = offset == 0.0 ? w : d.add(w, d.constant(w.getType(), offset));

  Value dy = d.widen(resultCotangents[0]);
  Value dn = d.mul(dy, broadcast(builder, loc, s, shape, {last}));
  Value projection = d.mul(n, perRow(rowMean(d.mul(dn, n))));
  cotangents[0] = d.mul(r, d.sub(dn, projection));
  cotangents[1] = reduceSum(builder, loc, d.mul(dy, n), leading);
  return success();
}

LogicalResult BroadcastOp::buildDerivative(OpBuilder &builder,
                                           ValueRange resultCotangents,
                                           SmallVectorImpl<Value> &cotangents) {
  DerivativeBuilder d(builder, getLoc());
  int64_t rank = cast<RankedTensorType>(getY().getType()).getRank();
  SmallVector<int64_t> repeated = otherDims(rank, getDims());
  Value dy = resultCotangents[0];
  cotangents[0] = repeated.empty()
                      ? dy
                      : reduceSum(builder, getLoc(), d.widen(dy), repeated);
  return success();
}

LogicalResult ReduceSumOp::buildDerivative(OpBuilder &builder,
                                           ValueRange resultCotangents,
                                           SmallVectorImpl<Value> &cotangents) {
  auto type = cast<RankedTensorType>(getX().getType());
  cotangents[0] =
      broadcast(builder, getLoc(), resultCotangents[0], type.getShape(),
                otherDims(type.getRank(), getDims()));
  return success();
}

/// The rotation is orthogonal; angles come from positions and have no
/// cotangent.
LogicalResult RopeOp::buildDerivative(OpBuilder &builder,
                                      ValueRange resultCotangents,
                                      SmallVectorImpl<Value> &cotangents) {
  cotangents[0] =
      RopeOp::create(builder, getLoc(), getX().getType(), resultCotangents[0],
                     getAngles(), !getInverse());
  return success();
}

//===----------------------------------------------------------------------===//
// Shape
//===----------------------------------------------------------------------===//

LogicalResult ReshapeOp::buildDerivative(OpBuilder &builder,
                                         ValueRange resultCotangents,
                                         SmallVectorImpl<Value> &cotangents) {
  Value dy = resultCotangents[0];
  cotangents[0] =
      ReshapeOp::create(builder, getLoc(), movedType(getX(), dy), dy);
  return success();
}

/// Pieces that do not influence the loss contribute zeros.
LogicalResult SplitOp::buildDerivative(OpBuilder &builder,
                                       ValueRange resultCotangents,
                                       SmallVectorImpl<Value> &cotangents) {
  DerivativeBuilder d(builder, getLoc());
  Type element = elementOf(getX());
  for (Value dy : resultCotangents)
    if (dy && elementOf(dy) != element)
      element = wideType(element);
  SmallVector<Value> pieces;
  for (auto [piece, dy] : llvm::zip_equal(getPieces(), resultCotangents)) {
    if (dy) {
      pieces.push_back(d.convert(dy, element));
      continue;
    }
    auto type = cast<RankedTensorType>(piece.getType()).clone(element);
    pieces.push_back(arith::ConstantOp::create(
        builder, getLoc(),
        SplatElementsAttr::get(type, builder.getFloatAttr(element, 0.0))));
  }
  auto type = cast<RankedTensorType>(getX().getType()).clone(element);
  cotangents[0] = ConcatOp::create(builder, getLoc(), type, pieces);
  return success();
}

LogicalResult ConcatOp::buildDerivative(OpBuilder &builder,
                                        ValueRange resultCotangents,
                                        SmallVectorImpl<Value> &cotangents) {
  Value dy = resultCotangents[0];
  SmallVector<Type> types;
  for (Value piece : getPieces())
    types.push_back(movedType(piece, dy));
  auto split = SplitOp::create(builder, getLoc(), types, dy);
  llvm::copy(split.getPieces(), cotangents.begin());
  return success();
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

LogicalResult EmbeddingOp::buildDerivative(OpBuilder &builder,
                                           ValueRange resultCotangents,
                                           SmallVectorImpl<Value> &cotangents) {
  cotangents[0] =
      EmbeddingGradOp::create(builder, getLoc(), widened(getTable().getType()),
                              resultCotangents[0], getIds());
  return success();
}

LogicalResult
CausalConv1dOp::buildDerivative(OpBuilder &builder, ValueRange resultCotangents,
                                SmallVectorImpl<Value> &cotangents) {
  auto grad = CausalConv1dGradOp::create(
      builder, getLoc(), getX().getType(), widened(getW().getType()), getX(),
      getW(), resultCotangents[0], getCuSeqlens());
  cotangents[0] = grad.getDx();
  cotangents[1] = grad.getDw();
  return success();
}

LogicalResult
GatedDeltaOp::buildDerivative(OpBuilder &builder, ValueRange resultCotangents,
                              SmallVectorImpl<Value> &cotangents) {
  auto grad = GatedDeltaGradOp::create(
      builder, getLoc(), getQ().getType(), getK().getType(), getV().getType(),
      getG().getType(), getBeta().getType(), getQ(), getK(), getV(), getG(),
      getBeta(), resultCotangents[0], getCuSeqlens(), getScaleAttr(),
      getL2normEpsAttr(), getChunkAttr());
  for (auto [i, cotangent] : llvm::enumerate(grad->getResults()))
    cotangents[i] = cotangent;
  return success();
}

LogicalResult AttentionOp::buildDerivative(OpBuilder &builder,
                                           ValueRange resultCotangents,
                                           SmallVectorImpl<Value> &cotangents) {
  if (resultCotangents[1])
    return emitOpError("has no derivative through result 'lse', but the loss "
                       "depends on it");
  auto grad = AttentionGradOp::create(
      builder, getLoc(), getQ().getType(), getK().getType(), getV().getType(),
      getQ(), getK(), getV(), getO(), getLse(), resultCotangents[0],
      getCuSeqlens(), getScaleAttr());
  cotangents[0] = grad.getDq();
  cotangents[1] = grad.getDk();
  cotangents[2] = grad.getDv();
  return success();
}

LogicalResult
LinearCrossEntropyOp::buildDerivative(OpBuilder &builder,
                                      ValueRange resultCotangents,
                                      SmallVectorImpl<Value> &cotangents) {
  auto grad = LinearCrossEntropyGradOp::create(
      builder, getLoc(), getNll().getType(), getX().getType(),
      widened(getW().getType()), getX(), getW(), getLabels(),
      resultCotangents[0], getIgnoreIndexAttr());
  cotangents[0] = grad.getDx();
  cotangents[1] = grad.getDw();
  return success();
}
