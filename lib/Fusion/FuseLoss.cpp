//===- FuseLoss.cpp - One sweep for the loss and its gradient -------------===//

#include "Passes.h"

#include "mlir/IR/Dominance.h"

namespace qwen {
#define GEN_PASS_DEF_FUSELOSSPASS
#include "lib/Fusion/Passes.h.inc"
} // namespace qwen

using namespace mlir;
using namespace qwen;

/// The gradient op on the same operands as `loss` that may give its result.
static LinearCrossEntropyGradOp findGradient(LinearCrossEntropyOp loss,
                                             DominanceInfo &dominance) {
  for (Operation *user : loss.getX().getUsers()) {
    auto gradient = dyn_cast<LinearCrossEntropyGradOp>(user);
    if (!gradient || gradient.getX() != loss.getX() ||
        gradient.getW() != loss.getW() ||
        gradient.getLabels() != loss.getLabels() ||
        gradient.getIgnoreIndex() != loss.getIgnoreIndex() ||
        gradient.getNll().getType() != loss.getNll().getType())
      continue;
    // Also refuses a cotangent that depends on the loss: its chain of users
    // begins before the gradient op.
    if (llvm::all_of(loss.getNll().getUsers(), [&](Operation *reader) {
          return dominance.properlyDominates(gradient.getOperation(), reader);
        }))
      return gradient;
  }
  return {};
}

namespace {
struct FuseLoss : qwen::impl::FuseLossPassBase<FuseLoss> {
  void runOnOperation() override {
    DominanceInfo &dominance = getAnalysis<DominanceInfo>();
    SmallVector<LinearCrossEntropyOp> losses;
    getOperation().walk([&](LinearCrossEntropyOp op) { losses.push_back(op); });
    for (LinearCrossEntropyOp loss : losses) {
      LinearCrossEntropyGradOp gradient = findGradient(loss, dominance);
      if (!gradient)
        continue;
      loss.getNll().replaceAllUsesWith(gradient.getNll());
      loss.erase();
      ++numFused;
    }
  }
};
} // namespace
