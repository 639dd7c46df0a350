//===- Decompose.cpp - rms_norm in elementwise ops and a row sum ----------===//

#include "FusableOps.h"
#include "Passes.h"

#include "llvm/ADT/Sequence.h"

namespace qwen {
#define GEN_PASS_DEF_DECOMPOSEPASS
#include "lib/Fusion/Passes.h.inc"
} // namespace qwen

using namespace mlir;
using namespace qwen;

static Value createSplat(OpBuilder &builder, Location loc,
                         RankedTensorType type, double value) {
  return arith::ConstantOp::create(
      builder, loc,
      DenseElementsAttr::get(
          type, builder.getFloatAttr(type.getElementType(), value)));
}

/// `value` with elements of type `element`, widened or rounded where they
/// differ.
static Value convert(OpBuilder &builder, Location loc, Value value,
                     Type element) {
  RankedTensorType from = tensorType(value);
  if (from.getElementType() == element)
    return value;
  Type to = from.clone(element);
  if (from.getElementTypeBitWidth() < element.getIntOrFloatBitWidth())
    return arith::ExtFOp::create(builder, loc, to, value);
  return arith::TruncFOp::create(builder, loc, to, value);
}

static Value decompose(OpBuilder &builder, RmsNormOp norm) {
  Location loc = norm.getLoc();
  RankedTensorType type = tensorType(norm.getX());
  Type wide = wideType(type.getElementType());
  int64_t rank = type.getRank();
  RankedTensorType full = type.clone(wide);
  RankedTensorType row =
      RankedTensorType::get(type.getShape().drop_back(), wide);

  Value x = convert(builder, loc, norm.getX(), wide);
  Value squares = arith::MulFOp::create(builder, loc, x, x);
  Value sum = ReduceSumOp::create(builder, loc, row, squares,
                                  ArrayRef<int64_t>{rank - 1});
  Value columns = createSplat(builder, loc, row, type.getShape().back());
  Value mean = arith::DivFOp::create(builder, loc, sum, columns);
  Value eps = createSplat(builder, loc, row, norm.getEps().convertToDouble());
  Value shifted = arith::AddFOp::create(builder, loc, mean, eps);
  Value inverse = math::RsqrtOp::create(builder, loc, shifted);
  Value spread =
      BroadcastOp::create(builder, loc, full, inverse,
                          llvm::to_vector(llvm::seq<int64_t>(0, rank - 1)));
  Value scaled = arith::MulFOp::create(builder, loc, x, spread);

  Value w = BroadcastOp::create(
      builder, loc, type.clone(tensorType(norm.getW()).getElementType()),
      norm.getW(), ArrayRef<int64_t>{rank - 1});
  w = convert(builder, loc, w, wide);
  double offset = norm.getOffset().convertToDouble();
  if (offset != 0)
    w = arith::AddFOp::create(builder, loc, w,
                              createSplat(builder, loc, full, offset));
  Value y = arith::MulFOp::create(builder, loc, scaled, w);
  return convert(builder, loc, y, tensorType(norm.getY()).getElementType());
}

namespace {
struct Decompose : qwen::impl::DecomposePassBase<Decompose> {
  void runOnOperation() override {
    SmallVector<RmsNormOp> norms;
    getOperation().walk([&](RmsNormOp norm) { norms.push_back(norm); });
    for (RmsNormOp norm : norms) {
      OpBuilder builder(norm);
      norm.getY().replaceAllUsesWith(decompose(builder, norm));
      norm.erase();
    }
  }
};
} // namespace
