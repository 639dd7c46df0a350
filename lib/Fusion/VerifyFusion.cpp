//===- VerifyFusion.cpp - What holds after the fusion stage ---------------===//

#include "FusableOps.h"
#include "Passes.h"

namespace qwen {
#define GEN_PASS_DEF_VERIFYFUSIONPASS
#include "lib/Fusion/Passes.h.inc"
} // namespace qwen

using namespace mlir;
using namespace qwen;

/// Ops that stand for themselves: library and hand-written kernels, views,
/// parameters, the optimizer, the frame of functions.
static bool standsAlone(Operation *op) {
  return isView(op) ||
         isa<GroupOp, LinearOp, LinearAddOp, MatmulOp, EmbeddingOp,
             EmbeddingGradOp, CausalConv1dOp, CausalConv1dGradOp, GatedDeltaOp,
             GatedDeltaGradOp, AttentionOp, AttentionGradOp,
             LinearCrossEntropyOp, LinearCrossEntropyGradOp, RopeAnglesOp,
             GetParameterOp, AccumulateGradOp, AllGatherOp, BucketPartOp,
             ReduceScatterOp, ShardedEmbeddingOp, ShardedEmbeddingGradOp,
             GradNormOp, AdamWOp, func::CallOp, func::ReturnOp>(op);
}

namespace {
struct VerifyFusion : qwen::impl::VerifyFusionPassBase<VerifyFusion> {
  void runOnOperation() override {
    bool failed = false;
    for (Operation &op : getOperation().getOps())
      if (!isa<func::FuncOp, ParameterOp, BucketOp>(op)) {
        op.emitOpError("is not expected in a module after fusion");
        failed = true;
      }
    for (auto func : getOperation().getOps<func::FuncOp>())
      for (Operation &op : func.getOps())
        failed |= !verify(func, &op);
    if (failed)
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  static bool verify(func::FuncOp func, Operation *op) {
    if (standsAlone(op))
      return true;
    // A constant that a view or a kernel reads is written by a fill.
    if (isSplatConstant(op))
      return true;
    op->emitOpError() << "in @" << func.getSymName()
                      << " is outside every group after fusion";
    return false;
  }
};
} // namespace
