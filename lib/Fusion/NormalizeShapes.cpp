//===- NormalizeShapes.cpp - Views and broadcasts out of chains -----------===//

#include "FusableOps.h"
#include "Passes.h"

#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include "llvm/ADT/DenseSet.h"

namespace qwen {
#define GEN_PASS_DEF_NORMALIZESHAPESPASS
#include "lib/Fusion/Passes.h.inc"
} // namespace qwen

using namespace mlir;
using namespace qwen;

//===----------------------------------------------------------------------===//
// Reshapes
//===----------------------------------------------------------------------===//

/// Whether the broadcast means the same in `shape`, where only trailing
/// dimensions are cut or joined: a scalar, or a repeat along those dimensions.
static bool canSpreadTo(BroadcastOp op, ArrayRef<int64_t> shape) {
  if (op.getDims().empty())
    return true;
  ArrayRef<int64_t> source = tensorType(op.getX()).getShape();
  return isRowBroadcast(op) && source.size() < shape.size() &&
         source == shape.take_front(source.size());
}

/// Whether `value` can be had in `shape` without a reshape that stops at a
/// column vector: a vector over the joined dimension has no form in the cut
/// one.
static bool canReshape(Value value, ArrayRef<int64_t> shape,
                       DenseSet<Value> &visited) {
  Operation *op = value.getDefiningOp();
  if (!op || !visited.insert(value).second)
    return true;
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return canSpreadTo(broadcast, shape);
  if (!isElementwise(op))
    return true;
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    return canReshape(operand, shape, visited);
  });
}

static bool canReshapeOperands(Operation *op, ArrayRef<int64_t> shape) {
  DenseSet<Value> visited;
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    return canReshape(operand, shape, visited);
  });
}

/// `value` in `shape`, through a view where nothing better is known.
static Value reshapeTo(OpBuilder &builder, Value value,
                       ArrayRef<int64_t> shape) {
  if (tensorType(value).getShape() == shape)
    return value;
  if (Operation *op = value.getDefiningOp()) {
    if (isSplatConstant(op))
      return cloneSplat(builder, op, shape);
    if (auto broadcast = dyn_cast<BroadcastOp>(op))
      return BroadcastOp::create(builder, value.getLoc(),
                                 tensorType(value).clone(shape),
                                 broadcast.getX(), broadcast.getDims());
    if (auto reshape = dyn_cast<ReshapeOp>(op))
      if (tensorType(reshape.getX()).getShape() == shape)
        return reshape.getX();
  }
  return ReshapeOp::create(builder, value.getLoc(),
                           tensorType(value).clone(shape), value);
}

/// The elementwise op `op` over `shape`.
static Value cloneReshaped(OpBuilder &builder, Operation *op,
                           ArrayRef<int64_t> shape) {
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(reshapeTo(builder, operand, shape));
  return cloneElementwise(builder, op, operands, shape);
}

namespace {

/// reshape(reshape(x)), reshape to the same shape, reshape of a constant.
struct FoldReshape : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    ArrayRef<int64_t> shape = tensorType(op.getY()).getShape();
    if (op.getX().getType() == op.getY().getType()) {
      rewriter.replaceOp(op, op.getX());
      return success();
    }
    Operation *source = op.getX().getDefiningOp();
    if (!source)
      return failure();
    if (isSplatConstant(source)) {
      rewriter.replaceOp(op, cloneSplat(rewriter, source, shape));
      return success();
    }
    auto inner = dyn_cast<ReshapeOp>(source);
    if (!inner)
      return failure();
    rewriter.modifyOpInPlace(op,
                             [&] { op.getXMutable().assign(inner.getX()); });
    return success();
  }
};

/// reshape(f(a, b)) -> f(reshape(a), reshape(b)) towards more dimensions.
struct HoistExpansion : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    Operation *source = op.getX().getDefiningOp();
    ArrayRef<int64_t> shape = tensorType(op.getY()).getShape();
    if (!source || !isElementwise(source) ||
        tensorType(op.getX()).getRank() >= tensorType(op.getY()).getRank() ||
        !canReshapeOperands(source, shape))
      return failure();
    // Computing it twice, in both shapes, is worth it for a widening only.
    bool allExpand = llvm::all_of(source->getUsers(), [&](Operation *user) {
      return isa<ReshapeOp>(user) &&
             user->getResult(0).getType() == op.getY().getType();
    });
    if (!allExpand && !isa<arith::ExtFOp>(source))
      return failure();
    rewriter.setInsertionPoint(source);
    Value expanded = cloneReshaped(rewriter, source, shape);
    rewriter.replaceOp(op, expanded);
    return success();
  }
};

/// f(reshape(a), b) -> reshape(f(a, reshape(b))) from more dimensions.
struct SinkCollapse : RewritePattern {
  SinkCollapse(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!isElementwise(op))
      return failure();
    for (Value operand : op->getOperands()) {
      auto reshape = operand.getDefiningOp<ReshapeOp>();
      if (!reshape)
        continue;
      ArrayRef<int64_t> shape = tensorType(reshape.getX()).getShape();
      if (tensorType(reshape.getX()).getRank() <=
              tensorType(operand).getRank() ||
          !canReshapeOperands(op, shape))
        continue;
      Value wide = cloneReshaped(rewriter, op, shape);
      rewriter.replaceOpWithNewOp<ReshapeOp>(op, op->getResult(0).getType(),
                                             wide);
      return success();
    }
    return failure();
  }
};

//===----------------------------------------------------------------------===//
// Split and concat
//===----------------------------------------------------------------------===//

/// split(f(x)) -> f(each piece of x).
struct HoistSplit : OpRewritePattern<SplitOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SplitOp op,
                                PatternRewriter &rewriter) const override {
    Operation *source = op.getX().getDefiningOp();
    if (!source || !isElementwise(source) || source->getNumOperands() != 1 ||
        !(source->hasOneUse() || isa<arith::ExtFOp>(source)))
      return failure();
    Value x = source->getOperand(0);
    SmallVector<Type> types;
    for (Value piece : op.getPieces())
      types.push_back(tensorType(piece).clone(tensorType(x).getElementType()));
    rewriter.setInsertionPoint(source);
    auto split = SplitOp::create(rewriter, op.getLoc(), types, x);
    SmallVector<Value> pieces;
    for (Value piece : split.getPieces())
      pieces.push_back(cloneElementwise(rewriter, source, piece,
                                        tensorType(piece).getShape()));
    rewriter.replaceOp(op, pieces);
    return success();
  }
};

/// f(concat(a, b)) -> concat(f(a), f(b)).
struct SinkConcat : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatOp op,
                                PatternRewriter &rewriter) const override {
    if (!op->hasOneUse())
      return failure();
    Operation *user = *op->getUsers().begin();
    if (!isElementwise(user) || user->getNumOperands() != 1)
      return failure();
    rewriter.setInsertionPoint(user);
    SmallVector<Value> pieces;
    for (Value piece : op.getPieces())
      pieces.push_back(cloneElementwise(rewriter, user, piece,
                                        tensorType(piece).getShape()));
    rewriter.replaceOpWithNewOp<ConcatOp>(user, user->getResult(0).getType(),
                                          pieces);
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Broadcasts and column sums
//===----------------------------------------------------------------------===//

/// broadcast(f(v)) -> f(broadcast(v)) for scalars and column vectors;
/// broadcasts of constants and broadcasts fold. A row value stays one value a
/// row.
struct HoistBroadcast : OpRewritePattern<BroadcastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(BroadcastOp op,
                                PatternRewriter &rewriter) const override {
    Operation *source = op.getX().getDefiningOp();
    RankedTensorType type = tensorType(op.getY());
    if (op.getX().getType() == op.getY().getType()) {
      rewriter.replaceOp(op, op.getX());
      return success();
    }
    if (!source)
      return failure();
    if (isSplatConstant(source)) {
      rewriter.replaceOp(op, cloneSplat(rewriter, source, type.getShape()));
      return success();
    }
    if (auto inner = dyn_cast<BroadcastOp>(source)) {
      SmallVector<int64_t> dims;
      for (int64_t dim : inner.getDims())
        dims.push_back(op.getDims()[dim]);
      rewriter.replaceOpWithNewOp<BroadcastOp>(op, type, inner.getX(), dims);
      return success();
    }
    if (!isElementwise(source) || isRowBroadcast(op))
      return failure();
    SmallVector<Value> operands;
    for (Value operand : source->getOperands())
      operands.push_back(
          BroadcastOp::create(rewriter, op.getLoc(),
                              type.clone(tensorType(operand).getElementType()),
                              operand, op.getDims()));
    rewriter.replaceOp(
        op, cloneElementwise(rewriter, source, operands, type.getShape()));
    return success();
  }
};

/// sum(x) c -> sum(x c), sum(x) / c -> sum(x / c), -sum(x) -> sum(-x) for sums
/// over columns.
struct FactorIntoColumnSum : RewritePattern {
  FactorIntoColumnSum(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!isa<arith::MulFOp, arith::DivFOp, arith::NegFOp>(op) ||
        !isElementwise(op))
      return failure();
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      auto sum = operand.getDefiningOp<ReduceSumOp>();
      if (!sum || !isColumnSum(sum) || !sum->hasOneUse() ||
          (i != 0 && isa<arith::DivFOp>(op)))
        continue;
      RankedTensorType type = tensorType(sum.getX());
      SmallVector<Value> operands(op->getOperands());
      for (auto [j, other] : llvm::enumerate(operands))
        other = i == j ? sum.getX()
                       : Value(BroadcastOp::create(
                             rewriter, op->getLoc(), type, other,
                             ArrayRef<int64_t>{type.getRank() - 1}));
      Value scaled = cloneElementwise(rewriter, op, operands, type.getShape());
      rewriter.replaceOpWithNewOp<ReduceSumOp>(op, op->getResult(0).getType(),
                                               scaled, sum.getDims());
      return success();
    }
    return failure();
  }
};

struct NormalizeShapes : qwen::impl::NormalizeShapesPassBase<NormalizeShapes> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<FoldReshape, HoistExpansion, SinkCollapse, HoistSplit,
                 SinkConcat, HoistBroadcast, FactorIntoColumnSum>(
        &getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns)))) {
      getOperation().emitError("shape normalisation did not come to an end");
      signalPassFailure();
    }
  }
};
} // namespace
