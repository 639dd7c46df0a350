//===- QwenVerifiers.cpp - What the qwen dialect accepts ------------------===//
//
// Checks that ODS cannot say. Each error names what was expected and what was
// found.
//
//===----------------------------------------------------------------------===//

#include "dialects/Qwen/Qwen.h"
#include "dialects/Qwen/TypeRules.h"
#include "qwen/Plan/ParameterInit.h"

#include <cmath>

using namespace mlir;
using namespace qwen;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static SmallVector<RankedTensorType> typesOf(ValueRange values) {
  return llvm::map_to_vector(values, typeOf);
}

/// The errors of an op: used as `EmitError`.
#define QWEN_EMIT [this] { return emitOpError(); }

//===----------------------------------------------------------------------===//
// Every op
//===----------------------------------------------------------------------===//

static LogicalResult verifyStatic(Operation *op, const Twine &name, Type type,
                                  bool scalarAllowed) {
  auto tensorType = dyn_cast<RankedTensorType>(type);
  if (!tensorType)
    return success();
  auto error = [&] { return op->emitOpError() << name << " "; };
  if (tensorType.getEncoding())
    return error() << "must have no encoding, but is " << type;
  if (tensorType.getRank() == 0 && !scalarAllowed)
    return error() << "must have at least one dimension, but is " << type;
  int64_t elements = 1;
  for (int64_t size : tensorType.getShape()) {
    if (ShapedType::isDynamic(size))
      return error() << "must have a static shape, but is " << type;
    if (size < 1 || size > maxDimension)
      return error() << "must have dimensions between 1 and " << maxDimension
                     << ", but is " << type;
    if (size > maxElements / elements)
      return error() << "must have at most " << maxElements
                     << " elements, but is " << type;
    elements *= size;
  }
  return success();
}

/// Rank 0 is for qwen ops that spread or make a scalar, and for other dialects.
LogicalResult qwen::detail::verifyStaticTensors(Operation *op) {
  bool scalarAllowed = !isa<QwenDialect>(op->getDialect()) ||
                       isa<BroadcastOp, ReduceSumOp, GroupOp>(op);
  for (auto [index, type] : llvm::enumerate(op->getOperandTypes()))
    if (failed(
            verifyStatic(op, "operand #" + Twine(index), type, scalarAllowed)))
      return failure();
  for (auto [index, type] : llvm::enumerate(op->getResultTypes()))
    if (failed(
            verifyStatic(op, "result #" + Twine(index), type, scalarAllowed)))
      return failure();
  return success();
}

/// The element type of a result may be that of the operand or its wide type.
static LogicalResult expectSameOrWider(EmitError emit, StringRef name,
                                       RankedTensorType found,
                                       RankedTensorType narrow) {
  RankedTensorType wide = narrow.clone(wideType(narrow.getElementType()));
  if (found == narrow || found == wide)
    return success();
  InFlightDiagnostic error = emit();
  error << name << " must be " << narrow;
  if (wide != narrow)
    error << " or " << wide;
  return error << ", but is " << found;
}

static LogicalResult expectPositive(EmitError emit, StringRef name,
                                    const APFloat &value) {
  double number = value.convertToDouble();
  if (std::isfinite(number) && number > 0)
    return success();
  return emit() << name << " must be a positive finite number, but is "
                << number;
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

LogicalResult ParameterOp::verify() {
  if (getSymName().empty())
    return emitOpError("must have a name");
  if (failed(verifyStatic(*this, "type", getType(), false)))
    return failure();
  if (!parameterInitByName(getInit()))
    return emitOpError() << "init must be \"normal\", \"zero\", \"one\" or "
                            "\"a_log\", but is \""
                         << getInit() << "\"";
  double deviation = getStd().convertToDouble();
  if (!std::isfinite(deviation) || deviation < 0)
    return emitOpError() << "std must be a finite number of at least 0, but is "
                         << deviation;
  if (deviation != 0 && getInit() != "normal")
    return emitOpError() << "std is for init = \"normal\", but init is \""
                         << getInit() << "\"";
  return success();
}

// The types follow from the parameters: see verifySymbolUses.
LogicalResult GetParameterOp::verify() { return success(); }

LogicalResult BucketOp::verify() {
  auto type = cast<RankedTensorType>(getType());
  if (type.getRank() != 1)
    return emitOpError() << "must be flat, but is " << type;
  if (getParameters().empty() || getParameters().size() != getOffsets().size())
    return emitOpError() << "must have one offset for each of its parameters, "
                            "but has "
                         << getOffsets().size() << " for "
                         << getParameters().size();
  Type wide = wideType(type.getElementType());
  if (gradientElement() != wide &&
      (!gradientElement().isBF16() || wide.isF64()))
    return emitOpError() << "gradient_type must be "
                         << (wide.isF64() ? "f64" : "f32 or bf16")
                         << ", but is " << gradientElement();
  return success();
}

Type BucketOp::gradientElement() {
  return getGradientType().value_or(
      wideType(cast<RankedTensorType>(getType()).getElementType()));
}

static LogicalResult verifyFlat(Operation *op, RankedTensorType type) {
  if (type.getRank() == 1)
    return success();
  return op->emitOpError() << "flat must have one dimension, but is " << type;
}

LogicalResult AllGatherOp::verify() {
  return verifyFlat(*this, typeOf(getFlat()));
}
LogicalResult ReduceScatterOp::verify() {
  return verifyFlat(*this, typeOf(getFlat()));
}

LogicalResult BucketPartOp::verify() {
  RankedTensorType flat = typeOf(getFlat()), value = typeOf(getValue());
  if (failed(verifyFlat(*this, flat)))
    return failure();
  if (flat.getElementType() != value.getElementType())
    return emitOpError() << "must keep the element type, but flat is " << flat
                         << " and the value " << value;
  auto offset = static_cast<int64_t>(getOffset());
  if (offset < 0 || offset > flat.getNumElements() ||
      value.getNumElements() > flat.getNumElements() - offset)
    return emitOpError() << "must lie inside flat, " << flat << ", but has "
                         << value.getNumElements() << " elements from "
                         << offset << " on";
  return success();
}

/// A row for each id.
static LogicalResult verifyRowsOfIds(Operation *op, RankedTensorType rows,
                                     RankedTensorType ids) {
  if (rows.getRank() == 2 && ids.getRank() == 1 &&
      rows.getDimSize(0) == ids.getDimSize(0))
    return success();
  return op->emitOpError() << "expected rows [T, H] of ids [T], found " << rows
                           << " and " << ids;
}

LogicalResult ShardedEmbeddingOp::verify() {
  return verifyRowsOfIds(*this, typeOf(getY()), typeOf(getIds()));
}
LogicalResult ShardedEmbeddingGradOp::verify() {
  return verifyRowsOfIds(*this, typeOf(getDy()), typeOf(getIds()));
}

LogicalResult AccumulateGradOp::verify() { return success(); }

//===----------------------------------------------------------------------===//
// Matrix products
//===----------------------------------------------------------------------===//

// The type rule says it all.
LogicalResult LinearOp::verify() { return success(); }
LogicalResult EmbeddingOp::verify() { return success(); }
LogicalResult CausalConv1dOp::verify() { return success(); }

LogicalResult LinearAddOp::verify() {
  RankedTensorType x = typeOf(getX()), w = typeOf(getW());
  RankedTensorType product = linearType(QWEN_EMIT, {x, w});
  return success(
      product &&
      succeeded(expectType(QWEN_EMIT, "addend", typeOf(getAddend()), product)));
}

LogicalResult MatmulOp::verify() {
  RankedTensorType a = typeOf(getA()), b = typeOf(getB());
  Type element = a.getElementType();
  bool ta = getTransposeA(), tb = getTransposeB();
  if (failed(expectRank(QWEN_EMIT, "a", a, 2, ta ? "[K, M]" : "[M, K]")) ||
      failed(expectRank(QWEN_EMIT, "b", b, 2, tb ? "[N, K]" : "[K, N]")))
    return failure();
  int64_t m = a.getDimSize(ta ? 1 : 0), k = a.getDimSize(ta ? 0 : 1);
  int64_t n = b.getDimSize(tb ? 0 : 1);
  SmallVector<int64_t> wantedB{k, n};
  if (tb)
    std::swap(wantedB[0], wantedB[1]);
  if (failed(expectType(QWEN_EMIT, "b", b, tensor(wantedB, element))))
    return failure();
  return expectSameOrWider(QWEN_EMIT, "c", typeOf(getC()),
                           tensor({m, n}, element));
}

//===----------------------------------------------------------------------===//
// Elementwise and row-wise
//===----------------------------------------------------------------------===//

// SameOperandsAndResultType says it all.
LogicalResult SigmoidOp::verify() { return success(); }
LogicalResult SoftplusOp::verify() { return success(); }

LogicalResult RmsNormOp::verify() {
  RankedTensorType x = typeOf(getX()), w = typeOf(getW());
  bool isDouble = x.getElementType().isF64();
  if (w.getRank() != 1 || w.getDimSize(0) != x.getShape().back() ||
      w.getElementType().isF64() != isDouble)
    return emitOpError() << "w must have shape [" << x.getShape().back()
                         << "] and " << (isDouble ? "f64" : "f32 or bf16")
                         << " elements, but is " << w;
  if (failed(expectPositive(QWEN_EMIT, "eps", getEps())))
    return failure();
  if (!std::isfinite(getOffset().convertToDouble()))
    return emitOpError("offset must be a finite number");
  return expectSameOrWider(QWEN_EMIT, "y", typeOf(getY()), x);
}

/// `dims` must ascend within [0, rank).
static LogicalResult verifyDims(EmitError emit, ArrayRef<int64_t> dims,
                                int64_t rank) {
  int64_t last = -1;
  for (int64_t dim : dims) {
    if (dim <= last || dim >= rank)
      return emit() << "dims must ascend within [0, " << rank << "), but are ["
                    << dims << "]";
    last = dim;
  }
  return success();
}

LogicalResult BroadcastOp::verify() {
  RankedTensorType x = typeOf(getX()), y = typeOf(getY());
  if (x.getElementType() != y.getElementType())
    return emitOpError() << "y must have x's element type, but x is " << x
                         << " and y is " << y;
  if (static_cast<int64_t>(getDims().size()) != x.getRank())
    return emitOpError() << "dims must name one dimension of y for each of the "
                         << x.getRank() << " of x, but are [" << getDims()
                         << "]";
  if (failed(verifyDims(QWEN_EMIT, getDims(), y.getRank())))
    return failure();
  for (auto [i, dim] : llvm::enumerate(getDims()))
    if (x.getDimSize(i) != y.getDimSize(dim))
      return emitOpError() << "dimension " << i << " of x (" << x
                           << ") must be as large as dimension " << dim
                           << " of y (" << y << ")";
  return success();
}

LogicalResult ReduceSumOp::verify() {
  RankedTensorType x = typeOf(getX());
  if (getDims().empty())
    return emitOpError("dims must name at least one dimension");
  if (failed(verifyDims(QWEN_EMIT, getDims(), x.getRank())))
    return failure();
  SmallVector<int64_t> shape;
  for (auto [i, size] : llvm::enumerate(x.getShape()))
    if (!llvm::is_contained(getDims(), static_cast<int64_t>(i)))
      shape.push_back(size);
  return expectType(QWEN_EMIT, "y", getY().getType(),
                    tensor(shape, x.getElementType()));
}

static LogicalResult verifyRotaryWidth(EmitError emit,
                                       RankedTensorType angles) {
  if (failed(expectRank(emit, "angles", angles, 2, "[tokens, rotary width]")))
    return failure();
  if (angles.getDimSize(1) % 2 != 0)
    return emit() << "the rotary width must be even, but angles is " << angles;
  return success();
}

LogicalResult RopeAnglesOp::verify() {
  RankedTensorType positions = typeOf(getPositions());
  RankedTensorType angles = typeOf(getAngles());
  if (failed(expectRank(QWEN_EMIT, "positions", positions, 1, "[tokens]")) ||
      failed(verifyRotaryWidth(QWEN_EMIT, angles)) ||
      failed(expectPositive(QWEN_EMIT, "theta", getTheta())))
    return failure();
  return expectType(QWEN_EMIT, "angles", angles,
                    tensor({positions.getDimSize(0), angles.getDimSize(1)},
                           angles.getElementType()));
}

LogicalResult RopeOp::verify() {
  RankedTensorType x = typeOf(getX()), angles = typeOf(getAngles());
  if (failed(expectRank(QWEN_EMIT, "x", x, 3, "[tokens, heads, head dim]")) ||
      failed(verifyRotaryWidth(QWEN_EMIT, angles)) ||
      failed(expectType(
          QWEN_EMIT, "angles", angles,
          tensor({x.getDimSize(0), angles.getDimSize(1)}, x.getElementType()))))
    return failure();
  if (angles.getDimSize(1) > x.getDimSize(2))
    return emitOpError() << "the rotary width (" << angles.getDimSize(1)
                         << ") must be at most the head dimension ("
                         << x.getDimSize(2) << ")";
  return success();
}

//===----------------------------------------------------------------------===//
// Shape
//===----------------------------------------------------------------------===//

LogicalResult ReshapeOp::verify() {
  RankedTensorType x = typeOf(getX()), y = typeOf(getY());
  if (x.getElementType() != y.getElementType() ||
      x.getNumElements() != y.getNumElements())
    return emitOpError() << "y must have x's element type and "
                         << x.getNumElements() << " elements, but x is " << x
                         << " and y is " << y;
  return success();
}

/// `pieces` must be `whole` cut along its last dimension.
static LogicalResult verifyPieces(EmitError emit, RankedTensorType whole,
                                  StringRef wholeName, ValueRange pieces) {
  if (pieces.empty())
    return emit() << "must have at least one piece";
  int64_t width = 0;
  for (auto [i, value] : llvm::enumerate(pieces)) {
    RankedTensorType piece = typeOf(value);
    if (piece.getElementType() != whole.getElementType() ||
        piece.getShape().drop_back() != whole.getShape().drop_back())
      return emit() << "piece #" << i << " (" << piece << ") may differ from "
                    << wholeName << " (" << whole
                    << ") in its last dimension only";
    width += piece.getShape().back();
  }
  if (width != whole.getShape().back())
    return emit() << "the last dimensions of the pieces must sum to that of "
                  << wholeName << " (" << whole << "), but sum to " << width;
  return success();
}

LogicalResult SplitOp::verify() {
  return verifyPieces(QWEN_EMIT, typeOf(getX()), "x", getPieces());
}

LogicalResult ConcatOp::verify() {
  return verifyPieces(QWEN_EMIT, typeOf(getY()), "y", getPieces());
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

LogicalResult EmbeddingGradOp::verify() {
  RankedTensorType dy = typeOf(getDy()), dtable = typeOf(getDtable());
  if (failed(expectRank(QWEN_EMIT, "dy", dy, 2, "[tokens, hidden]")) ||
      failed(
          expectRank(QWEN_EMIT, "dtable", dtable, 2, "[vocabulary, hidden]")) ||
      failed(expectType(
          QWEN_EMIT, "ids", getIds().getType(),
          tensor({dy.getDimSize(0)}, typeOf(getIds()).getElementType()))))
    return failure();
  return expectType(QWEN_EMIT, "dtable", dtable,
                    tensor({dtable.getDimSize(0), dy.getDimSize(1)},
                           wideType(dy.getElementType())));
}

LogicalResult CausalConv1dGradOp::verify() {
  RankedTensorType x = typeOf(getX()), w = typeOf(getW());
  if (!causalConv1dType(QWEN_EMIT, {x, w, typeOf(getCuSeqlens())}) ||
      failed(expectType(QWEN_EMIT, "dy", getDy().getType(), x)) ||
      failed(expectType(QWEN_EMIT, "dx", getDx().getType(), x)))
    return failure();
  return expectType(QWEN_EMIT, "dw", getDw().getType(),
                    w.clone(wideType(w.getElementType())));
}

/// Attributes of the gated delta rule.
static LogicalResult verifyDeltaAttributes(EmitError emit, APFloat scale,
                                           APFloat epsilon, int64_t chunk) {
  if (failed(expectPositive(emit, "scale", scale)) ||
      failed(expectPositive(emit, "l2norm_eps", epsilon)))
    return failure();
  if (chunk < 16 || chunk > 128 || (chunk & (chunk - 1)) != 0)
    return emit() << "chunk must be a power of two between 16 and 128, but is "
                  << chunk;
  return success();
}

LogicalResult GatedDeltaOp::verify() {
  return verifyDeltaAttributes(QWEN_EMIT, getScale(), getL2normEps(),
                               getChunk());
}

LogicalResult GatedDeltaGradOp::verify() {
  SmallVector<RankedTensorType> forward =
      typesOf({getQ(), getK(), getV(), getG(), getBeta(), getCuSeqlens()});
  RankedTensorType o = gatedDeltaType(QWEN_EMIT, forward);
  if (!o || failed(expectType(QWEN_EMIT, "dout", getDout().getType(), o)) ||
      failed(verifyDeltaAttributes(QWEN_EMIT, getScale(), getL2normEps(),
                                   getChunk())))
    return failure();
  constexpr StringLiteral names[] = {"dq", "dk", "dv", "dg", "dbeta"};
  for (auto [i, name] : llvm::enumerate(names))
    if (failed(expectType(QWEN_EMIT, name, getResult(i).getType(), forward[i])))
      return failure();
  return success();
}

LogicalResult AttentionOp::verify() {
  RankedTensorType o = attentionType(QWEN_EMIT, typesOf(getOperands()));
  if (!o || failed(expectType(QWEN_EMIT, "o", getO().getType(), o)) ||
      failed(expectPositive(QWEN_EMIT, "scale", getScale())))
    return failure();
  return expectType(
      QWEN_EMIT, "lse", getLse().getType(),
      tensor(o.getShape().drop_back(), wideType(o.getElementType())));
}

LogicalResult AttentionGradOp::verify() {
  SmallVector<RankedTensorType> forward =
      typesOf({getQ(), getK(), getV(), getCuSeqlens()});
  RankedTensorType o = attentionType(QWEN_EMIT, forward);
  if (!o || failed(expectType(QWEN_EMIT, "o", getO().getType(), o)) ||
      failed(expectType(QWEN_EMIT, "dout", getDout().getType(), o)) ||
      failed(expectType(
          QWEN_EMIT, "lse", getLse().getType(),
          tensor(o.getShape().drop_back(), wideType(o.getElementType())))) ||
      failed(expectPositive(QWEN_EMIT, "scale", getScale())))
    return failure();
  constexpr StringLiteral names[] = {"dq", "dk", "dv"};
  for (auto [i, name] : llvm::enumerate(names))
    if (failed(expectType(QWEN_EMIT, name, getResult(i).getType(), forward[i])))
      return failure();
  return success();
}

/// An ignored label must not be a row of the vocabulary.
static LogicalResult verifyIgnoreIndex(EmitError emit, int64_t index) {
  if (index < 0 && index >= -(int64_t(1) << 31))
    return success();
  return emit() << "ignore_index must be a negative 32-bit number, but is "
                << index;
}

LogicalResult LinearCrossEntropyOp::verify() {
  RankedTensorType nll =
      linearCrossEntropyType(QWEN_EMIT, typesOf(getOperands()));
  if (!nll || failed(verifyIgnoreIndex(QWEN_EMIT, getIgnoreIndex())))
    return failure();
  return expectType(QWEN_EMIT, "nll", getNll().getType(), nll);
}

LogicalResult LinearCrossEntropyGradOp::verify() {
  RankedTensorType x = typeOf(getX()), w = typeOf(getW());
  RankedTensorType nll =
      linearCrossEntropyType(QWEN_EMIT, {x, w, typeOf(getLabels())});
  if (!nll || failed(verifyIgnoreIndex(QWEN_EMIT, getIgnoreIndex())) ||
      failed(expectType(QWEN_EMIT, "dnll", getDnll().getType(), nll)) ||
      failed(expectType(QWEN_EMIT, "nll", getNll().getType(), nll)) ||
      failed(expectType(QWEN_EMIT, "dx", getDx().getType(), x)))
    return failure();
  return expectType(QWEN_EMIT, "dw", getDw().getType(),
                    w.clone(wideType(w.getElementType())));
}

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

LogicalResult GradNormOp::verify() {
  Type element = typeOf(getHyper()).getElementType();
  if (failed(expectType(QWEN_EMIT, "hyper", getHyper().getType(),
                        tensor({8}, element))))
    return failure();
  return expectType(QWEN_EMIT, "stats", getStats().getType(),
                    tensor({4}, element));
}

LogicalResult AdamWOp::verify() {
  Type element = typeOf(getHyper()).getElementType();
  Type rng = typeOf(getRng()).getElementType();
  if (failed(expectType(QWEN_EMIT, "hyper", getHyper().getType(),
                        tensor({8}, element))) ||
      failed(expectType(QWEN_EMIT, "stats", getStats().getType(),
                        tensor({4}, element))) ||
      failed(
          expectType(QWEN_EMIT, "rng", getRng().getType(), tensor({2}, rng))))
    return failure();
  if (!isa<Float32Type, Float64Type, BFloat16Type>(getMomentType()))
    return emitOpError() << "moment_type must be f32, bf16 or f64, but is "
                         << getMomentType();
  if (std::optional<Type> master = getMasterType())
    if (!isa<Float32Type, Float64Type>(*master))
      return emitOpError() << "master_type must be f32 or f64, but is "
                           << *master;
  return success();
}
