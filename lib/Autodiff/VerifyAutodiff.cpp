//===- VerifyAutodiff.cpp - What holds after stage autodiff ---------------===//

#include "lib/Autodiff/Passes.h"

#include "dialects/Qwen/Qwen.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace qwen {

#define GEN_PASS_DEF_VERIFYAUTODIFFPASS
#include "lib/Autodiff/Passes.h.inc"

namespace {

/// A program's inputs and outputs by name.
struct ProgramSignature {
  StringRef name;
  SmallVector<StringRef> inputs;
  StringRef output;
  bool optional = false;
};

SmallVector<ProgramSignature> programSignatures() {
  SmallVector<StringRef> pack = {"tokens", "labels", "positions", "cu_seqlens",
                                 "loss_scale"};
  return {{"micro_step", pack, "nll"},
          {"first_micro_step", pack, "nll"},
          {"eval", {"tokens", "labels", "positions", "cu_seqlens"}, "nll"},
          {"update", {"hyper", "rng"}, "stats"},
          {"logits", {"tokens", "positions", "cu_seqlens"}, "logits", true}};
}

/// Follows a program as it runs: the gradients that were overwritten.
class GradientOrder {
public:
  explicit GradientOrder(ModuleOp module) : symbols(module) {}

  LogicalResult run(func::FuncOp func) {
    if (!running.insert(func).second)
      return func.emitOpError("calls itself");
    for (Operation &op : func.getOps()) {
      if (auto accumulate = dyn_cast<AccumulateGradOp>(op))
        if (failed(visit(accumulate)))
          return failure();
      if (auto call = dyn_cast<func::CallOp>(op))
        if (auto callee = symbols.lookup<func::FuncOp>(call.getCallee()))
          if (!callee.isExternal() && failed(run(callee)))
            return failure();
    }
    running.erase(func);
    return success();
  }

  bool hasWritten(StringRef name) const { return written.contains(name); }

private:
  LogicalResult visit(AccumulateGradOp op) {
    for (auto name : op.getParameters().getAsRange<FlatSymbolRefAttr>()) {
      if (written.insert(name.getValue()).second == op.getOverwrite())
        continue;
      if (op.getOverwrite())
        return op.emitOpError("overwrites the gradient of ")
               << name << ", which @first_micro_step has written before";
      return op.emitOpError("adds to the gradient of ")
             << name << ", which @first_micro_step has not written before";
    }
    return success();
  }

  SymbolTable symbols;
  llvm::DenseSet<Operation *> running;
  llvm::StringSet<> written;
};

struct VerifyAutodiffPass : impl::VerifyAutodiffPassBase<VerifyAutodiffPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(checkPrograms(module)) || failed(checkGradientPlaces(module)) ||
        failed(checkOverwrites(module)) || failed(checkUpdate(module)) ||
        failed(checkStacks(module)))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  static LogicalResult checkSignature(func::FuncOp func,
                                      const ProgramSignature &signature) {
    if (!func.isPublic() || !func->hasAttr("qwen.program"))
      return func.emitOpError("should be public and have attribute "
                              "qwen.program");
    llvm::StringSet<> inputs;
    for (unsigned i = 0; i < func.getNumArguments(); ++i) {
      auto name = func.getArgAttrOfType<StringAttr>(i, "qwen.input");
      if (!name || !inputs.insert(name.getValue()).second)
        return func.emitOpError("argument #")
               << i << " should have a qwen.input name of its own";
    }
    for (StringRef name : signature.inputs)
      if (!inputs.contains(name))
        return func.emitOpError("should have an input '") << name << "'";
    if (inputs.size() != signature.inputs.size())
      return func.emitOpError("should have ")
             << signature.inputs.size() << " inputs, found " << inputs.size();
    for (unsigned i = 0; i < func.getNumResults(); ++i) {
      auto name = func.getResultAttrOfType<StringAttr>(i, "qwen.output");
      if (name && name.getValue() == signature.output)
        return success();
    }
    return func.emitOpError("should have an output '")
           << signature.output << "'";
  }

  static LogicalResult checkPrograms(ModuleOp module) {
    llvm::StringSet<> known;
    for (const ProgramSignature &signature : programSignatures()) {
      known.insert(signature.name);
      auto func = module.lookupSymbol<func::FuncOp>(signature.name);
      if (!func && signature.optional)
        continue;
      if (!func)
        return module.emitError("expected a program '@")
               << signature.name << "'";
      if (failed(checkSignature(func, signature)))
        return failure();
    }
    for (auto func : module.getOps<func::FuncOp>())
      if ((func.isPublic() || func->hasAttr("qwen.program")) &&
          !known.contains(func.getSymName()))
        return func.emitOpError("is no program; only programs are public");
    return success();
  }

  /// Adds the names of all functions that `func` runs.
  static void collectCallees(ModuleOp module, func::FuncOp func,
                             llvm::StringSet<> &names) {
    if (!names.insert(func.getSymName()).second)
      return;
    func.walk([&](func::CallOp call) {
      if (auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee()))
        collectCallees(module, callee, names);
    });
  }

  static LogicalResult checkGradientPlaces(ModuleOp module) {
    llvm::StringSet<> others;
    for (StringRef name : {"eval", "update", "logits"})
      if (auto func = module.lookupSymbol<func::FuncOp>(name))
        collectCallees(module, func, others);
    WalkResult result = module.walk([&](AccumulateGradOp op) {
      auto func = op->getParentOfType<func::FuncOp>();
      if (!others.contains(func.getSymName()))
        return WalkResult::advance();
      op.emitOpError("accumulates a gradient outside of @micro_step and "
                     "@first_micro_step");
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }

  /// The first micro-step overwrites each gradient once, before it adds to it;
  /// the other one only adds.
  static LogicalResult checkOverwrites(ModuleOp module) {
    GradientOrder order(module);
    if (failed(
            order.run(module.lookupSymbol<func::FuncOp>("first_micro_step"))))
      return failure();
    llvm::StringSet<> later;
    collectCallees(module, module.lookupSymbol<func::FuncOp>("micro_step"),
                   later);
    WalkResult result = module.walk([&](AccumulateGradOp op) {
      if (!later.contains(op->getParentOfType<func::FuncOp>().getSymName()))
        return WalkResult::advance();
      if (op.getOverwrite()) {
        op.emitOpError("overwrites a gradient in @micro_step, which should add "
                       "to it");
        return WalkResult::interrupt();
      }
      for (auto name : op.getParameters().getAsRange<FlatSymbolRefAttr>())
        if (!order.hasWritten(name.getValue())) {
          op.emitOpError("adds to the gradient of ")
              << name << ", which @first_micro_step does not write";
          return WalkResult::interrupt();
        }
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

  /// Every trained parameter is stepped once and measured by the norm.
  static LogicalResult checkUpdate(ModuleOp module) {
    llvm::StringSet<> trained, measured, stepped;
    module.walk(
        [&](AccumulateGradOp op) { insert(trained, op.getParameters()); });
    module.walk([&](GradNormOp op) { insert(measured, op.getParameters()); });
    WalkResult result = module.walk([&](AdamWOp op) {
      for (auto name : op.getParameters().getAsRange<FlatSymbolRefAttr>()) {
        if (stepped.insert(name.getValue()).second)
          continue;
        op.emitOpError("steps parameter '@")
            << name.getValue() << "', which another one steps";
        return WalkResult::interrupt();
      }
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return failure();
    for (auto parameter : module.getOps<ParameterOp>()) {
      StringRef name = parameter.getSymName();
      bool hasGradient = trained.contains(name), steps = stepped.contains(name);
      if (hasGradient == steps && hasGradient == measured.contains(name))
        continue;
      auto error = parameter.emitError("parameter '@") << name << "' ";
      if (steps && !hasGradient)
        return error << "is stepped by @update but has no gradient";
      if (hasGradient && !steps)
        return error << "has a gradient but is not stepped by @update";
      return error << "should be in qwen.grad_norm exactly if it is trained";
    }
    return success();
  }

  static void insert(llvm::StringSet<> &set, ArrayAttr names) {
    for (auto name : names.getAsRange<FlatSymbolRefAttr>())
      set.insert(name.getValue());
  }

  /// A parameter has one place in memory, so one set of neighbours.
  static LogicalResult checkStacks(ModuleOp module) {
    llvm::DenseMap<Attribute, ArrayAttr> stacks;
    WalkResult result = module.walk([&](Operation *op) {
      ArrayAttr names;
      if (auto get = dyn_cast<GetParameterOp>(op))
        names = get.getParameters();
      else if (auto accumulate = dyn_cast<AccumulateGradOp>(op))
        names = accumulate.getParameters();
      else
        return WalkResult::advance();
      for (Attribute name : names) {
        ArrayAttr &stack = stacks.try_emplace(name, names).first->second;
        if (stack == names)
          continue;
        op->emitOpError("uses parameter ")
            << name << " in stack " << names << ", but elsewhere it is in "
            << stack;
        return WalkResult::interrupt();
      }
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }
};

} // namespace
} // namespace qwen
