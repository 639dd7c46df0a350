//===- LowerToKernels.cpp - Tensor ops to kernel calls on buffers ---------===//

#include "FunctionLowering.h"

namespace qwen {
#define GEN_PASS_DEF_LOWERTOKERNELSPASS
#include "lib/Lowering/Passes.h.inc"
} // namespace qwen

using namespace mlir;
using namespace qwen;

static bool onlyAccumulates(Value value) {
  return value.hasOneUse() && isa<AccumulateGradOp>(*value.getUsers().begin());
}

namespace {
struct LowerToKernels : qwen::impl::LowerToKernelsPassBase<LowerToKernels> {
  using LowerToKernelsPassBase::LowerToKernelsPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    LoweringContext context(module);
    context.remarks = remarks;
    for (auto [i, parameter] : llvm::enumerate(module.getOps<ParameterOp>()))
      context.parameterNumbers[parameter.getSymName()] = i;
    findBuckets(context);
    if (failed(checkFunctions()))
      return signalPassFailure();
    findAccumulatedResults(context);
    for (auto func : module.getOps<func::FuncOp>())
      if (failed(FunctionLowering(func, context).run()))
        return signalPassFailure();
    numGroupFunctions += context.groups.size();
    numCopies += context.copies;
    module.walk([&](kernel::KernelOpInterface) { ++numKernels; });
  }

private:
  void findBuckets(LoweringContext &context) {
    auto ranks = getOperation()->getAttrOfType<IntegerAttr>("qwen.world_size");
    context.worldSize = ranks ? ranks.getInt() : 1;
    for (auto bucket : getOperation().getOps<BucketOp>()) {
      for (auto name : bucket.getParameters().getAsRange<SymbolRefAttr>())
        context.bucketNumbers[name.getRootReference().getValue()] =
            context.buckets.size();
      context.buckets.push_back(bucket);
    }
  }

  /// Straight-line functions whose calls have a body to lower.
  LogicalResult checkFunctions() {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (!func.getBody().hasOneBlock())
        return func.emitOpError(
            "needs a body of one block to be lowered to kernels");
      for (auto call : func.getOps<func::CallOp>())
        if (!getOperation().lookupSymbol<func::FuncOp>(call.getCallee()))
          return call.emitOpError()
                 << "calls @" << call.getCallee() << ", which does not exist";
    }
    return success();
  }

  /// A result that every call adds to a gradient, and that is used for nothing
  /// else, is written there by the function itself.
  void findAccumulatedResults(LoweringContext &context) {
    ModuleOp module = getOperation();
    DenseSet<StringRef> called;
    for (auto func : module.getOps<func::FuncOp>())
      context.accumulatedResults[func.getSymName()].assign(func.getNumResults(),
                                                           false);
    for (auto func : module.getOps<func::FuncOp>())
      for (auto call : func.getOps<func::CallOp>()) {
        auto &accumulated = context.accumulatedResults[call.getCallee()];
        bool isFirst = called.insert(call.getCallee()).second;
        for (auto [i, result] : llvm::enumerate(call.getResults()))
          accumulated[i] =
              (isFirst || accumulated[i]) && onlyAccumulates(result);
      }
  }
};
} // namespace
