//===- FuseResiduals.cpp - Residual sums become part of the product -------===//

#include "FusableOps.h"
#include "Passes.h"

#include "mlir/IR/Dominance.h"

namespace qwen {
#define GEN_PASS_DEF_FUSERESIDUALSPASS
#include "lib/Fusion/Passes.h.inc"
} // namespace qwen

using namespace mlir;
using namespace qwen;

/// The value that `operand` widens, which nothing else of the chain reads.
static Value widenedOnce(Value operand) {
  auto widening = operand.getDefiningOp<arith::ExtFOp>();
  return widening && widening->hasOneUse() ? widening.getIn() : Value();
}

/// The projection whose result `sum` alone reads through `operand`.
static LinearOp projectionOf(Value operand) {
  Value narrow = widenedOnce(operand);
  if (!narrow || !narrow.hasOneUse())
    return {};
  return narrow.getDefiningOp<LinearOp>();
}

namespace {
struct FuseResiduals : qwen::impl::FuseResidualsPassBase<FuseResiduals> {
  void runOnOperation() override {
    DominanceInfo &dominance = getAnalysis<DominanceInfo>();
    SmallVector<arith::TruncFOp> roundings;
    getOperation().walk([&](arith::TruncFOp op) { roundings.push_back(op); });
    for (arith::TruncFOp rounding : roundings)
      fuse(rounding, dominance);
  }

private:
  /// Matches round(widen(linear(x, w)) + widen(residual)).
  void fuse(arith::TruncFOp rounding, DominanceInfo &dominance) {
    auto sum = rounding.getIn().getDefiningOp<arith::AddFOp>();
    if (!sum || !sum->hasOneUse())
      return;
    for (auto [mine, other] : {std::pair(sum.getLhs(), sum.getRhs()),
                               std::pair(sum.getRhs(), sum.getLhs())}) {
      LinearOp linear = projectionOf(mine);
      auto widening = other.getDefiningOp<arith::ExtFOp>();
      if (!linear || !widening ||
          widening.getIn().getType() != rounding.getType() ||
          linear.getType() != rounding.getType() ||
          !dominance.properlyDominates(widening.getIn(), linear))
        continue;
      OpBuilder builder(linear);
      auto fused = LinearAddOp::create(
          builder, builder.getFusedLoc({linear.getLoc(), sum.getLoc()}),
          linear.getType(), linear.getX(), linear.getW(), widening.getIn());
      rounding.getResult().replaceAllUsesWith(fused.getY());
      eraseChain(rounding, sum, linear);
      ++numFused;
      return;
    }
  }

  static void eraseChain(arith::TruncFOp rounding, arith::AddFOp sum,
                         LinearOp linear) {
    SmallVector<Operation *> widenings = {sum.getLhs().getDefiningOp(),
                                          sum.getRhs().getDefiningOp()};
    rounding.erase();
    sum.erase();
    for (Operation *widening : widenings)
      if (widening->use_empty())
        widening->erase();
    linear.erase();
  }
};
} // namespace
