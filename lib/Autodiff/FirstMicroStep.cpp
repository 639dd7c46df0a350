//===- FirstMicroStep.cpp - Program first_micro_step ----------------------===//

#include "lib/Autodiff/Passes.h"

#include "dialects/Qwen/Qwen.h"
#include "dialects/Qwen/Specialization.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace qwen {

#define GEN_PASS_DEF_FIRSTMICROSTEPPASS
#include "lib/Autodiff/Passes.h.inc"

namespace {

struct FirstMicroStepPass : impl::FirstMicroStepPassBase<FirstMicroStepPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto microStep = module.lookupSymbol<func::FuncOp>("micro_step");
    if (!microStep) {
      module.emitError("expected a program '@micro_step' to make "
                       "'@first_micro_step' of");
      return signalPassFailure();
    }
    if (Operation *taken = module.lookupSymbol("first_micro_step")) {
      taken->emitError("name '@first_micro_step' is reserved for a program");
      return signalPassFailure();
    }
    symbols.emplace(module);
    func::FuncOp first = microStep.clone();
    first.setName("first_micro_step");
    symbols->insert(first, std::next(microStep->getIterator()));
    running.push_back("micro_step");
    if (failed(overwrite(first)))
      return signalPassFailure();
  }

private:
  /// Lets the first contribution to each gradient replace it, in the order that
  /// `func` runs.
  LogicalResult overwrite(func::FuncOp func) {
    for (Operation &op : llvm::make_early_inc_range(func.getOps())) {
      if (auto accumulate = dyn_cast<AccumulateGradOp>(op))
        overwrite(accumulate);
      else if (auto call = dyn_cast<func::CallOp>(op))
        if (failed(overwriteIn(call)))
          return failure();
    }
    return success();
  }

  void overwrite(AccumulateGradOp op) {
    // Parameters of a stack have their gradients from the same ops.
    bool isFirst = true;
    for (auto name : op.getParameters().getAsRange<FlatSymbolRefAttr>())
      isFirst &= written.insert(name.getValue()).second;
    op.setOverwrite(isFirst);
    overwrites += isFirst;
  }

  /// Gives the call a callee of its own where that overwrites something.
  LogicalResult overwriteIn(func::CallOp call) {
    auto callee = symbols->lookup<func::FuncOp>(call.getCallee());
    if (!callee || callee.isExternal())
      return success();
    StringRef name = callee.getSymName();
    if (llvm::is_contained(running, name))
      return call.emitOpError("calls '@")
             << name
             << "', which is running: recursive calls have no first "
                "contribution";
    size_t before = written.size();
    func::FuncOp own = specialize(callee, (name + "_first").str(), *symbols);
    running.push_back(name);
    LogicalResult result = overwrite(own);
    running.pop_back();
    if (written.size() == before) {
      symbols->erase(own);
      return result;
    }
    call.setCallee(own.getSymName());
    return result;
  }

  std::optional<SymbolTable> symbols;
  /// Parameters whose gradients have been written.
  llvm::StringSet<> written;
  /// Functions around the op at hand, by their names in `@micro_step`.
  SmallVector<StringRef> running;
};

} // namespace
} // namespace qwen
