//===- ArithDerivatives.cpp - Derivative rules of arith and math ops ------===//
//
// External models of DifferentiableOpInterface for the upstream elementwise ops
// that models use. An op that is not here has no rule, and autodiff says so.
//
//===----------------------------------------------------------------------===//

#include "dialects/Qwen/DerivativeBuilder.h"
#include "dialects/Qwen/Qwen.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <numbers>

using namespace mlir;

namespace qwen {

//===----------------------------------------------------------------------===//
// Wide arithmetic
//===----------------------------------------------------------------------===//

Type widened(Type type) {
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    return tensor.clone(wideType(tensor.getElementType()));
  return wideType(type);
}

Value DerivativeBuilder::convert(Value value, Type element) {
  Type type = value.getType();
  Type to = element;
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    to = tensor.clone(element);
  if (type == to)
    return value;
  if (getElementTypeOrSelf(type).getIntOrFloatBitWidth() <
      element.getIntOrFloatBitWidth())
    return arith::ExtFOp::create(builder, loc, to, value);
  // Rounding a value that was only extended gives it back.
  if (auto extended = value.getDefiningOp<arith::ExtFOp>())
    if (extended.getIn().getType() == to)
      return extended.getIn();
  return arith::TruncFOp::create(builder, loc, to, value);
}

Value DerivativeBuilder::widen(Value value) {
  return convert(value, wideType(getElementTypeOrSelf(value.getType())));
}

Value DerivativeBuilder::constant(Type type, double number) {
  Type wide = widened(type);
  auto element = builder.getFloatAttr(getElementTypeOrSelf(wide), number);
  if (auto tensor = dyn_cast<RankedTensorType>(wide))
    return arith::ConstantOp::create(builder, loc,
                                     SplatElementsAttr::get(tensor, element));
  return arith::ConstantOp::create(builder, loc, element);
}

Value DerivativeBuilder::add(Value a, Value b) {
  return arith::AddFOp::create(builder, loc, widen(a), widen(b));
}
Value DerivativeBuilder::sub(Value a, Value b) {
  return arith::SubFOp::create(builder, loc, widen(a), widen(b));
}
Value DerivativeBuilder::mul(Value a, Value b) {
  return arith::MulFOp::create(builder, loc, widen(a), widen(b));
}
Value DerivativeBuilder::div(Value a, Value b) {
  return arith::DivFOp::create(builder, loc, widen(a), widen(b));
}
Value DerivativeBuilder::neg(Value a) {
  return arith::NegFOp::create(builder, loc, widen(a));
}
Value DerivativeBuilder::scale(Value a, double factor) {
  return mul(a, constant(a.getType(), factor));
}
Value DerivativeBuilder::subFrom(double number, Value a) {
  return sub(constant(a.getType(), number), a);
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

namespace {

/// What a rule sees: operands, results, the first result's cotangent.
struct Rule : DerivativeBuilder {
  Rule(OpBuilder &builder, Operation *op, Value dy,
       SmallVectorImpl<Value> &cotangents)
      : DerivativeBuilder(builder, op->getLoc()), op(op), dy(dy),
        cotangents(cotangents) {}

  Value operand(unsigned i) { return op->getOperand(i); }
  Value x() { return op->getOperand(0); }
  Value y() { return op->getResult(0); }
  void set(unsigned i, Value value) { cotangents[i] = value; }
  Value compare(arith::CmpFPredicate predicate, Value a, Value b) {
    return arith::CmpFOp::create(builder, loc, predicate, a, b);
  }
  Value select(Value condition, Value a, Value b) {
    return arith::SelectOp::create(builder, loc, condition, a, b);
  }
  Value zero() { return constant(dy.getType(), 0.0); }

  Operation *op;
  Value dy;
  SmallVectorImpl<Value> &cotangents;
};

void derive(arith::AddFOp, Rule &r) {
  r.set(0, r.dy);
  r.set(1, r.dy);
}

void derive(arith::SubFOp, Rule &r) {
  r.set(0, r.dy);
  r.set(1, r.neg(r.dy));
}

void derive(arith::MulFOp, Rule &r) {
  r.set(0, r.mul(r.dy, r.operand(1)));
  r.set(1, r.mul(r.dy, r.operand(0)));
}

void derive(arith::DivFOp, Rule &r) {
  Value da = r.div(r.dy, r.operand(1));
  r.set(0, da);
  r.set(1, r.neg(r.mul(da, r.y())));
}

void derive(arith::NegFOp, Rule &r) { r.set(0, r.neg(r.dy)); }

/// The wide cotangent goes on unrounded: where x is a weight it stays wide, and
/// elsewhere it is rounded once, after all cotangents of x are added.
void derive(arith::ExtFOp, Rule &r) { r.set(0, r.dy); }

void derive(arith::TruncFOp, Rule &r) {
  r.set(0, r.convert(r.dy, getElementTypeOrSelf(r.x().getType())));
}

void derive(arith::SelectOp, Rule &r) {
  Value dy = r.widen(r.dy);
  r.set(1, r.select(r.operand(0), dy, r.zero()));
  r.set(2, r.select(r.operand(0), r.zero(), dy));
}

/// At a tie the first operand takes the whole cotangent.
void deriveExtremum(Rule &r, arith::CmpFPredicate firstWins) {
  Value dy = r.widen(r.dy);
  Value first = r.compare(firstWins, r.operand(0), r.operand(1));
  r.set(0, r.select(first, dy, r.zero()));
  r.set(1, r.select(first, r.zero(), dy));
}
void derive(arith::MaximumFOp, Rule &r) {
  deriveExtremum(r, arith::CmpFPredicate::OGE);
}
void derive(arith::MinimumFOp, Rule &r) {
  deriveExtremum(r, arith::CmpFPredicate::OLE);
}

void derive(math::ExpOp, Rule &r) { r.set(0, r.mul(r.dy, r.y())); }

void derive(math::ExpM1Op, Rule &r) {
  r.set(0, r.add(r.mul(r.dy, r.y()), r.dy));
}

void derive(math::LogOp, Rule &r) { r.set(0, r.div(r.dy, r.x())); }

void derive(math::Log1pOp, Rule &r) {
  Value one = r.constant(r.x().getType(), 1.0);
  r.set(0, r.div(r.dy, r.add(one, r.x())));
}

void derive(math::SqrtOp, Rule &r) {
  r.set(0, r.div(r.scale(r.dy, 0.5), r.y()));
}

void derive(math::RsqrtOp, Rule &r) {
  Value cube = r.mul(r.mul(r.y(), r.y()), r.y());
  r.set(0, r.mul(r.scale(r.dy, -0.5), cube));
}

void derive(math::TanhOp, Rule &r) {
  r.set(0, r.mul(r.dy, r.subFrom(1.0, r.mul(r.y(), r.y()))));
}

void derive(math::SinOp, Rule &r) {
  r.set(0, r.mul(r.dy, math::CosOp::create(r.builder, r.loc, r.widen(r.x()))));
}

void derive(math::CosOp, Rule &r) {
  Value sine = math::SinOp::create(r.builder, r.loc, r.widen(r.x()));
  r.set(0, r.neg(r.mul(r.dy, sine)));
}

/// The derivative at 0 is taken as 1.
void derive(math::AbsFOp, Rule &r) {
  Value x = r.widen(r.x());
  Value positive = r.compare(arith::CmpFPredicate::OGE, x, r.zero());
  r.set(0, r.select(positive, r.widen(r.dy), r.neg(r.dy)));
}

void derive(math::ErfOp, Rule &r) {
  Value square = r.mul(r.x(), r.x());
  Value density = math::ExpOp::create(r.builder, r.loc, r.neg(square));
  r.set(0, r.scale(r.mul(r.dy, density), 2.0 * std::numbers::inv_sqrtpi));
}

/// Adapts `derive` of one op to the interface.
template <typename OpT>
struct Model : DifferentiableOpInterface::ExternalModel<Model<OpT>, OpT> {
  LogicalResult
  buildDerivative(Operation *op, OpBuilder &builder,
                  ValueRange resultCotangents,
                  SmallVectorImpl<Value> &operandCotangents) const {
    Rule rule(builder, op, resultCotangents[0], operandCotangents);
    derive(cast<OpT>(op), rule);
    return success();
  }
};

template <typename... OpTs> void attach(MLIRContext *context) {
  (OpTs::template attachInterface<Model<OpTs>>(*context), ...);
}

} // namespace

void registerArithDerivatives(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    attach<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp,
           arith::NegFOp, arith::ExtFOp, arith::TruncFOp, arith::SelectOp,
           arith::MaximumFOp, arith::MinimumFOp>(context);
  });
  registry.addExtension(+[](MLIRContext *context, math::MathDialect *) {
    attach<math::ExpOp, math::ExpM1Op, math::LogOp, math::Log1pOp, math::SqrtOp,
           math::RsqrtOp, math::TanhOp, math::SinOp, math::CosOp, math::AbsFOp,
           math::ErfOp>(context);
  });
}

} // namespace qwen
