//===- GraphBuilder.cpp - Named ops of a model graph ----------------------===//

#include "models/GraphBuilder.h"
#include "dialects/Qwen/Qwen.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Location.h"

using namespace mlir;
using namespace qwen;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

GraphBuilder::GraphBuilder(OpBuilder &builder, Type element)
    : builder(builder), element(element), wide(wideType(element)) {}

RankedTensorType GraphBuilder::tensor(ArrayRef<int64_t> shape) const {
  return RankedTensorType::get(shape, element);
}

RankedTensorType GraphBuilder::wideTensor(ArrayRef<int64_t> shape) const {
  return RankedTensorType::get(shape, wide);
}

RankedTensorType GraphBuilder::indexTensor(ArrayRef<int64_t> shape) const {
  return RankedTensorType::get(shape, builder.getI32Type());
}

Location GraphBuilder::name(StringRef name) const {
  return NameLoc::get(builder.getStringAttr(name));
}

Value GraphBuilder::widen(Value x) {
  RankedTensorType type = typeOf(x);
  if (type.getElementType() == wide)
    return x;
  return arith::ExtFOp::create(builder, builder.getUnknownLoc(),
                               type.clone(wide), x);
}

Value GraphBuilder::narrow(StringRef valueName, Value x) {
  RankedTensorType type = typeOf(x);
  if (type.getElementType() == element)
    return x;
  return arith::TruncFOp::create(builder, name(valueName), type.clone(element),
                                 x);
}

Value GraphBuilder::linear(StringRef valueName, Value x, Value w) {
  return LinearOp::create(builder, name(valueName), x, w);
}

Value GraphBuilder::reshape(StringRef valueName, Value x,
                            ArrayRef<int64_t> shape) {
  return ReshapeOp::create(builder, name(valueName), typeOf(x).clone(shape), x);
}

SmallVector<Value> GraphBuilder::split(StringRef valueName, Value x,
                                       ArrayRef<int64_t> widths) {
  RankedTensorType type = typeOf(x);
  SmallVector<Type> types;
  for (int64_t width : widths) {
    SmallVector<int64_t> shape(type.getShape());
    shape.back() = width;
    types.push_back(type.clone(shape));
  }
  auto op = SplitOp::create(builder, name(valueName), types, x);
  return SmallVector<Value>(op.getPieces());
}

Value GraphBuilder::add(Value a, Value b) {
  return arith::AddFOp::create(builder, builder.getUnknownLoc(), a, b);
}

Value GraphBuilder::multiply(Value a, Value b, StringRef valueName) {
  Location loc = valueName.empty() ? builder.getUnknownLoc() : name(valueName);
  return arith::MulFOp::create(builder, loc, a, b);
}

Value GraphBuilder::negate(Value x) {
  return arith::NegFOp::create(builder, builder.getUnknownLoc(), x);
}

Value GraphBuilder::exp(Value x) {
  return math::ExpOp::create(builder, builder.getUnknownLoc(), x);
}

Value GraphBuilder::sigmoid(Value x) {
  return SigmoidOp::create(builder, builder.getUnknownLoc(), x.getType(), x);
}

Value GraphBuilder::softplus(Value x) {
  return SoftplusOp::create(builder, builder.getUnknownLoc(), x.getType(), x);
}

Value GraphBuilder::silu(Value x) { return multiply(x, sigmoid(x)); }

Value GraphBuilder::repeatRows(Value vector, int64_t rows) {
  RankedTensorType type = typeOf(vector);
  return BroadcastOp::create(builder, builder.getUnknownLoc(),
                             type.clone({rows, type.getDimSize(0)}), vector,
                             ArrayRef<int64_t>{1});
}

Value GraphBuilder::rmsNorm(StringRef valueName, Value x, Value w,
                            double epsilon, double offset, bool wideResult) {
  Type result = typeOf(x).clone(wideResult ? wide : element);
  return RmsNormOp::create(builder, name(valueName), result, x, w,
                           builder.getF64FloatAttr(epsilon),
                           builder.getF64FloatAttr(offset));
}

Value GraphBuilder::residual(StringRef valueName, Value x, Value r) {
  if (element == wide)
    return arith::AddFOp::create(builder, name(valueName), x, r);
  Value wideX = widen(x);
  Value wideR = widen(r);
  return narrow(valueName, add(wideX, wideR));
}
