//===- Elementwise.cpp - One elementwise op on scalars or vectors ---------===//

#include "Elementwise.h"

#include "dialects/Qwen/Qwen.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

#include <limits>
#include <numbers>

using namespace mlir;
using namespace qwen;

Type qwen::computeType(Type element) {
  return element.isBF16() ? Float32Type::get(element.getContext()) : element;
}

int64_t qwen::lanes(Type compute) { return compute.isF64() ? 8 : 16; }

static Type withWidth(Type element, int64_t width) {
  return width == 0 ? element : VectorType::get({width}, element);
}

Value qwen::splat(OpBuilder &builder, Location loc, Type type, double value) {
  TypedAttr attr = builder.getFloatAttr(getElementTypeOrSelf(type), value);
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, attr);
  return arith::ConstantOp::create(builder, loc, attr);
}

static Value intSplat(OpBuilder &builder, Location loc, Type type,
                      int64_t value) {
  TypedAttr attr = builder.getIntegerAttr(getElementTypeOrSelf(type), value);
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, attr);
  return arith::ConstantOp::create(builder, loc, attr);
}

Value qwen::widenBf16(OpBuilder &b, Location loc, Value stored) {
  auto vector = dyn_cast<VectorType>(stored.getType());
  if (!vector || vector.getDimSize(0) % 2 != 0) {
    Type type = b.getF32Type();
    return arith::ExtFOp::create(b, loc, vector ? vector.clone(type) : type,
                                 stored);
  }
  auto words = VectorType::get({vector.getDimSize(0) / 2}, b.getI32Type());
  auto floats = words.clone(b.getF32Type());
  Value pairs = vector::BitCastOp::create(b, loc, words, stored);
  Value low = arith::ShLIOp::create(b, loc, pairs, intSplat(b, loc, words, 16));
  Value high = arith::AndIOp::create(
      b, loc, pairs,
      intSplat(b, loc, words, static_cast<int32_t>(0xffff0000u)));
  return vector::InterleaveOp::create(
      b, loc, arith::BitcastOp::create(b, loc, floats, low),
      arith::BitcastOp::create(b, loc, floats, high));
}

Value qwen::narrowToBf16(OpBuilder &b, Location loc, Value value) {
  // Of a rounded value the bf16 numbers exist already.
  if (auto whole = value.getDefiningOp<vector::InterleaveOp>())
    if (auto low = whole.getLhs().getDefiningOp<arith::BitcastOp>())
      if (auto shifted = low.getIn().getDefiningOp<arith::ShLIOp>())
        if (auto pairs = shifted.getLhs().getDefiningOp<vector::BitCastOp>())
          return pairs.getSource();
  Type narrow = b.getBF16Type();
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    narrow = vector.clone(narrow);
  return arith::TruncFOp::create(b, loc, narrow, value);
}

/// By the GPU's conversion instructions.
static Value roundByConversion(OpBuilder &b, Location loc, Value value) {
  return widenBf16(b, loc, narrowToBf16(b, loc, value));
}

Value qwen::roundToBf16(OpBuilder &b, Location loc, Value value,
                        Processor processor) {
  if (processor == Processor::Gpu)
    return roundByConversion(b, loc, value);
  Type type = value.getType();
  Type bitsType = b.getI32Type();
  if (auto vector = dyn_cast<VectorType>(type))
    bitsType = vector.clone(bitsType);
  Value bits = arith::BitcastOp::create(b, loc, bitsType, value);
  Value sixteen = intSplat(b, loc, bitsType, 16);
  Value odd = arith::AndIOp::create(
      b, loc, arith::ShRUIOp::create(b, loc, bits, sixteen),
      intSplat(b, loc, bitsType, 1));
  Value bias =
      arith::AddIOp::create(b, loc, odd, intSplat(b, loc, bitsType, 0x7fff));
  Value rounded = arith::AndIOp::create(
      b, loc, arith::AddIOp::create(b, loc, bits, bias),
      intSplat(b, loc, bitsType, static_cast<int32_t>(0xffff0000u)));
  // Adding to a NaN's payload could make it an infinity.
  Value isNan =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, value, value);
  Value quiet = intSplat(b, loc, bitsType, 0x7fc00000);
  Value chosen = arith::SelectOp::create(b, loc, isNan, quiet, rounded);
  return arith::BitcastOp::create(b, loc, type, chosen);
}

/// Licence to use the instruction that is exact to 2 units in the last place.
static arith::FastMathFlagsAttr flagsOf(OpBuilder &b, Processor processor) {
  return arith::FastMathFlagsAttr::get(
      b.getContext(), processor == Processor::Gpu ? arith::FastMathFlags::afn
                                                  : arith::FastMathFlags::none);
}

/// exp(x); on the GPU 2^(x log2 e), whose error in units in the last place is
/// 2 + |x|: the product is rounded before the power.
static Value emitExp(OpBuilder &b, Location loc, Value x, Processor processor) {
  if (processor == Processor::Cpu)
    return math::ExpOp::create(b, loc, x);
  Value scaled = arith::MulFOp::create(
      b, loc, x, splat(b, loc, x.getType(), std::numbers::log2e));
  return math::Exp2Op::create(b, loc, scaled, flagsOf(b, processor));
}

static Value emitQuotient(OpBuilder &b, Location loc, Value x, Value y,
                          Processor processor) {
  return arith::DivFOp::create(b, loc, x, y, flagsOf(b, processor));
}

/// 1 / (1 + exp(-x)) from exp(-|x|), which never overflows.
static Value emitSigmoid(OpBuilder &b, Location loc, Value x,
                         Processor processor) {
  if (processor == Processor::Gpu) {
    // An infinite exp(-x) has the reciprocal 0, which is right.
    Value one = splat(b, loc, x.getType(), 1.0);
    Value e = emitExp(b, loc, arith::NegFOp::create(b, loc, x), processor);
    Value sum = arith::AddFOp::create(b, loc, one, e);
    return emitQuotient(b, loc, one, sum, processor);
  }
  Value one = splat(b, loc, x.getType(), 1.0);
  Value zero = splat(b, loc, x.getType(), 0.0);
  Value e = math::ExpOp::create(
      b, loc, arith::NegFOp::create(b, loc, math::AbsFOp::create(b, loc, x)));
  Value d = arith::AddFOp::create(b, loc, one, e);
  Value positive =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGE, x, zero);
  // A NaN takes the second branch, where exp keeps it.
  Value numerator = arith::SelectOp::create(b, loc, positive, one, e);
  return arith::DivFOp::create(b, loc, numerator, d);
}

/// log(1 + x). The f32 polynomial is accurate near 0; for f64 the upstream
/// lowering is log(1 + x) itself, so Kahan's correction x / ((1 + x) - 1) of
/// the rounding in 1 + x comes on top.
static Value emitLog1p(OpBuilder &b, Location loc, Value x) {
  Type type = x.getType();
  if (!getElementTypeOrSelf(type).isF64())
    return math::Log1pOp::create(b, loc, x);
  Value one = splat(b, loc, type, 1.0);
  Value u = arith::AddFOp::create(b, loc, one, x);
  Value log = math::LogOp::create(b, loc, u);
  Value ratio =
      arith::DivFOp::create(b, loc, x, arith::SubFOp::create(b, loc, u, one));
  Value corrected = arith::MulFOp::create(b, loc, log, ratio);
  auto equals = [&](double value) -> Value {
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, u,
                                 splat(b, loc, type, value));
  };
  Value finite = arith::SelectOp::create(
      b, loc, equals(std::numeric_limits<double>::infinity()), u, corrected);
  return arith::SelectOp::create(b, loc, equals(1.0), x, finite);
}

/// exp(x) - 1. As for log1p: the upstream lowering of f64 is exp(x) - 1 itself,
/// so Kahan's correction x / log(u) of the rounding in u = exp(x) comes on top.
static Value emitExpM1(OpBuilder &b, Location loc, Value x) {
  Type type = x.getType();
  if (!getElementTypeOrSelf(type).isF64())
    return math::ExpM1Op::create(b, loc, x);
  Value one = splat(b, loc, type, 1.0);
  Value u = math::ExpOp::create(b, loc, x);
  Value difference = arith::SubFOp::create(b, loc, u, one);
  Value ratio =
      arith::DivFOp::create(b, loc, x, math::LogOp::create(b, loc, u));
  Value corrected = arith::MulFOp::create(b, loc, difference, ratio);
  auto equals = [&](Value value, double number) -> Value {
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, value,
                                 splat(b, loc, type, number));
  };
  // Where u is 0 or infinite, log(u) is no number to divide by.
  Value atEnd =
      arith::OrIOp::create(b, loc, equals(difference, -1.0),
                           equals(u, std::numeric_limits<double>::infinity()));
  Value finite = arith::SelectOp::create(b, loc, atEnd, difference, corrected);
  return arith::SelectOp::create(b, loc, equals(u, 1.0), x, finite);
}

/// max(x, 0) + log1p(exp(-|x|)); x itself above 20.
static Value emitSoftplus(OpBuilder &b, Location loc, Value x,
                          Processor processor) {
  Value zero = splat(b, loc, x.getType(), 0.0);
  Value magnitude = math::AbsFOp::create(b, loc, x);
  Value e =
      emitExp(b, loc, arith::NegFOp::create(b, loc, magnitude), processor);
  Value sum = arith::AddFOp::create(
      b, loc, arith::MaximumFOp::create(b, loc, x, zero), emitLog1p(b, loc, e));
  Value large = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, x,
                                      splat(b, loc, x.getType(), 20.0));
  return arith::SelectOp::create(b, loc, large, x, sum);
}

static FailureOr<Value> emitConstant(OpBuilder &b, arith::ConstantOp op,
                                     int64_t width) {
  auto dense = dyn_cast<SplatElementsAttr>(op.getValue());
  if (!dense || !isa<FloatType>(dense.getElementType()))
    return op.emitOpError("in a group must be a floating-point splat");
  Type element = computeType(dense.getElementType());
  return splat(b, op.getLoc(), withWidth(element, width),
               dense.getSplatValue<APFloat>().convertToDouble());
}

static Value emitConversion(OpBuilder &b, Operation &op, Value x, Type result,
                            int64_t width, Processor processor) {
  Type element = getElementTypeOrSelf(result);
  Type wanted = withWidth(computeType(element), width);
  if (isa<arith::ExtFOp>(op) && x.getType() != wanted)
    x = arith::ExtFOp::create(b, op.getLoc(), wanted, x);
  else if (isa<arith::TruncFOp>(op) && x.getType() != wanted)
    x = arith::TruncFOp::create(b, op.getLoc(), wanted, x);
  return element.isBF16() ? roundToBf16(b, op.getLoc(), x, processor) : x;
}

FailureOr<Value> qwen::emitElementwise(OpBuilder &b, Operation &op,
                                       ValueRange operands, int64_t width,
                                       Processor processor) {
  Location loc = op.getLoc();
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return emitConstant(b, constant, width);
  Type result = op.getResult(0).getType();
  Type element = getElementTypeOrSelf(result);
  Value value;
  if (isa<arith::ExtFOp, arith::TruncFOp>(op))
    return emitConversion(b, op, operands[0], result, width, processor);
  if (isa<SigmoidOp>(op)) {
    value = emitSigmoid(b, loc, operands[0], processor);
  } else if (isa<SoftplusOp>(op)) {
    value = emitSoftplus(b, loc, operands[0], processor);
  } else if (isa<math::Log1pOp>(op)) {
    value = emitLog1p(b, loc, operands[0]);
  } else if (isa<math::ExpM1Op>(op)) {
    value = emitExpM1(b, loc, operands[0]);
  } else if (isa<math::ExpOp>(op)) {
    value = emitExp(b, loc, operands[0], processor);
  } else if (isa<arith::DivFOp>(op)) {
    value = emitQuotient(b, loc, operands[0], operands[1], processor);
  } else if (isa<math::SqrtOp>(op)) {
    value = math::SqrtOp::create(b, loc, operands[0], flagsOf(b, processor));
  } else if (isa<math::RsqrtOp>(op)) {
    // On the CPU two correctly rounded instructions instead of an estimate; the
    // GPU has one for both.
    Value root =
        math::SqrtOp::create(b, loc, operands[0], flagsOf(b, processor));
    value = emitQuotient(b, loc, splat(b, loc, root.getType(), 1.0), root,
                         processor);
  } else if (OpTrait::hasElementwiseMappableTraits(&op) &&
             isa<arith::ArithDialect, math::MathDialect>(op.getDialect())) {
    OperationState state(loc, op.getName());
    state.addOperands(operands);
    state.addTypes(withWidth(computeType(element), width));
    // A licence to contract or reassociate would let the group decide the bits.
    for (NamedAttribute attribute : op.getAttrs())
      if (attribute.getName() != "fastmath")
        state.attributes.append(attribute);
    value = b.create(state)->getResult(0);
  } else {
    return op.emitOpError("cannot be part of a generated kernel; supported are "
                          "elementwise arith and math ops, qwen.sigmoid, "
                          "qwen.softplus, qwen.broadcast, qwen.reduce_sum and "
                          "qwen.rope");
  }
  return element.isBF16() ? roundToBf16(b, loc, value, processor) : value;
}
