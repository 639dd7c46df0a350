//===- HoistScatters.cpp - Scatter gradients as soon as they are there ----===//

#include "dialects/Qwen/Qwen.h"
#include "lib/Sharding/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace qwen {

#define GEN_PASS_DEF_HOISTSCATTERSPASS
#include "lib/Sharding/Passes.h.inc"

namespace {

/// What joins gradients without computing anything.
bool isJoining(Operation *op) {
  return isa<ConcatOp, ReshapeOp, SplitOp, arith::ConstantOp>(op);
}

struct HoistScattersPass : impl::HoistScattersPassBase<HoistScattersPass> {
  void runOnOperation() override {
    llvm::StringMap<Operation *> last; // scatter by bucket
    SmallVector<ReduceScatterOp> scatters(
        getOperation().getOps<ReduceScatterOp>());
    for (ReduceScatterOp scatter : scatters) {
      Operation *&before = last[scatter.getBucket()];
      hoist(scatter, before);
      before = scatter;
    }
  }

private:
  /// Moves a scatter and what joins its operand behind the op that makes the
  /// last gradient, and behind `before`.
  void hoist(ReduceScatterOp scatter, Operation *before) {
    llvm::SetVector<Operation *> joining; // users before makers
    Operation *latest = before;
    SmallVector<Value> values = {scatter.getFlat()};
    while (!values.empty()) {
      Operation *maker = values.pop_back_val().getDefiningOp();
      if (!maker)
        continue;
      if (!isJoining(maker)) {
        if (!latest || latest->isBeforeInBlock(maker))
          latest = maker;
        continue;
      }
      joining.insert(maker);
      llvm::append_range(values, maker->getOperands());
    }
    if (!latest)
      return;
    // In the order of the block; those that stand earlier stay.
    SmallVector<Operation *> moved = {scatter};
    for (Operation *op : joining)
      if (latest->isBeforeInBlock(op))
        moved.push_back(op);
    llvm::sort(moved, [](Operation *a, Operation *b) {
      return a->isBeforeInBlock(b);
    });
    Operation *stood = scatter->getPrevNode();
    for (Operation *op : llvm::reverse(moved))
      op->moveAfter(latest);
    numHoisted += scatter->getPrevNode() != stood;
  }
};

} // namespace
} // namespace qwen
