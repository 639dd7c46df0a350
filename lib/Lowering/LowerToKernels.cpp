//===- LowerToKernels.cpp - Tensor ops to kernel calls on buffers ---------===//

#include "FunctionLowering.h"

#include "dialects/Qwen/Specialization.h"

namespace qwen {
#define GEN_PASS_DEF_LOWERTOKERNELSPASS
#include "lib/Lowering/Passes.h.inc"
} // namespace qwen

using namespace mlir;
using namespace qwen;

/// Whether the value is added to a gradient and used for nothing else.
static bool isAdded(Value value) {
  if (!value.hasOneUse())
    return false;
  auto user = dyn_cast<AccumulateGradOp>(*value.getUsers().begin());
  return user && !user.getOverwrite();
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
    specializeCalls(context);
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

  /// A result that a call adds to a gradient is written there by the callee
  /// itself. Calls that add other results call a copy of the function.
  void specializeCalls(LoweringContext &context) {
    SymbolTable symbols(getOperation());
    SmallVector<func::FuncOp> functions(getOperation().getOps<func::FuncOp>());
    for (func::FuncOp func : functions)
      context.accumulatedResults[func.getSymName()].assign(func.getNumResults(),
                                                           false);
    struct Variant {
      SmallVector<bool> added;
      func::FuncOp func;
    };
    llvm::StringMap<SmallVector<Variant>> variants;
    // Copies are looked through as well.
    for (size_t next = 0; next < functions.size(); ++next)
      for (auto call : functions[next].getOps<func::CallOp>()) {
        SmallVector<bool> added = llvm::map_to_vector(
            call.getResults(), [](Value result) { return isAdded(result); });
        SmallVector<Variant> &known = variants[call.getCallee()];
        auto *found = llvm::find_if(
            known, [&](const Variant &v) { return v.added == added; });
        if (found == known.end()) {
          auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
          if (!known.empty())
            functions.push_back(
                callee = specialize(callee, callee.getSymName(), symbols));
          context.accumulatedResults[callee.getSymName()] = added;
          found = &known.emplace_back(std::move(added), callee);
        }
        call.setCallee(found->func.getSymName());
      }
  }
};
} // namespace
