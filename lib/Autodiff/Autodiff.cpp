//===- Autodiff.cpp - Programs micro_step and eval from @forward ----------===//

#include "lib/Autodiff/DerivedFunctions.h"
#include "lib/Autodiff/Passes.h"
#include "lib/Autodiff/Residuals.h"
#include "lib/Autodiff/ReverseSweep.h"

#include "dialects/Qwen/Qwen.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace qwen {

#define GEN_PASS_DEF_AUTODIFFPASS
#include "lib/Autodiff/Passes.h.inc"

namespace {

/// The number of the result named `nll`, or failure with an error.
FailureOr<unsigned> lossResult(func::FuncOp forward) {
  for (unsigned i = 0; i < forward.getNumResults(); ++i) {
    auto name = forward.getResultAttrOfType<StringAttr>(i, "qwen.output");
    if (!name || name.getValue() != "nll")
      continue;
    auto type = dyn_cast<RankedTensorType>(forward.getResultTypes()[i]);
    if (type &&
        (type.getElementType().isF32() || type.getElementType().isF64()))
      return i;
    return forward.emitOpError("result 'nll' should be a tensor of f32 or f64, "
                               "found ")
           << forward.getResultTypes()[i];
  }
  return forward.emitOpError(
      "has no result with qwen.output = \"nll\" to differentiate");
}

/// Adds the input by which every token's loss is multiplied.
FailureOr<Value> addLossScale(func::FuncOp func, Type nll) {
  Builder builder(func.getContext());
  auto type = RankedTensorType::get({}, getElementTypeOrSelf(nll));
  DictionaryAttr name = builder.getDictionaryAttr(
      builder.getNamedAttr("qwen.input", builder.getStringAttr("loss_scale")));
  if (failed(func.insertArgument(func.getNumArguments(), type, name,
                                 func.getLoc())))
    return failure();
  return Value(func.getArguments().back());
}

/// Private functions that nothing calls any more.
void eraseUncalledFunctions(ModuleOp module) {
  for (bool changed = true; changed;) {
    changed = false;
    llvm::StringSet<> called;
    module.walk([&](func::CallOp call) { called.insert(call.getCallee()); });
    for (auto func :
         llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
      if (func.isPublic() || called.contains(func.getSymName()))
        continue;
      func.erase();
      changed = true;
    }
  }
}

/// Warns about parameters without a gradient; an error where none has one.
LogicalResult checkGradients(ModuleOp module, func::FuncOp microStep) {
  llvm::StringSet<> trained;
  module.walk([&](AccumulateGradOp op) {
    for (auto name : op.getParameters().getAsRange<FlatSymbolRefAttr>())
      trained.insert(name.getValue());
  });
  if (trained.empty())
    return microStep.emitOpError(
        "computes a loss that no parameter influences");
  for (auto parameter : module.getOps<ParameterOp>())
    if (!trained.contains(parameter.getSymName()))
      parameter.emitWarning("parameter '@")
          << parameter.getSymName()
          << "' does not influence the loss; it is not trained";
  return success();
}

struct AutodiffPass : impl::AutodiffPassBase<AutodiffPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto forward = module.lookupSymbol<func::FuncOp>("forward");
    if (!forward || !forward.getBody().hasOneBlock()) {
      module.emitError("expected a function '@forward' of one block to "
                       "differentiate");
      return signalPassFailure();
    }
    for (StringRef name : {"micro_step", "eval"}) {
      if (Operation *taken = module.lookupSymbol(name)) {
        taken->emitError("name '@") << name << "' is reserved for a program";
        return signalPassFailure();
      }
    }
    if (failed(makePrograms(module, forward)))
      signalPassFailure();
  }

  LogicalResult makePrograms(ModuleOp module, func::FuncOp forward) {
    FailureOr<unsigned> loss = lossResult(forward);
    if (failed(loss))
      return failure();
    UnitAttr program = UnitAttr::get(&getContext());
    forward->setAttr("qwen.program", program);
    if (auto logits = module.lookupSymbol<func::FuncOp>("logits"))
      logits->setAttr("qwen.program", program);
    func::FuncOp eval = forward.clone();
    eval.setName("eval");
    forward.setName("micro_step");
    module.getBody()->getOperations().insert(std::next(forward->getIterator()),
                                             eval);

    DerivedFunctions derived(module);
    derived.setOriginalName(forward, "forward");
    if (failed(differentiate(forward, *loss, derived)))
      return failure();
    differentiated += derived.differentiated();
    residuals += derived.residuals();
    eraseUncalledFunctions(module);
    return checkGradients(module, forward);
  }

  LogicalResult differentiate(func::FuncOp func, unsigned loss,
                              DerivedFunctions &derived) {
    Operation *terminator = func.getBody().front().getTerminator();
    unsigned arguments = func.getNumArguments();
    ReverseSweep sweep(func, derived, llvm::BitVector(arguments),
                       llvm::BitVector(arguments));
    Value nll = terminator->getOperand(loss);
    FailureOr<Value> scale = addLossScale(func, nll.getType());
    if (failed(scale))
      return failure();
    sweep.seed(nll,
               BroadcastOp::create(sweep.builder(), nll.getLoc(), nll.getType(),
                                   *scale, ArrayRef<int64_t>()));
    if (failed(sweep.run()))
      return failure();
    JointFunction joint{func, arguments, sweep.primalOps(),
                        llvm::to_vector(terminator->getOperands())};
    eraseDeadBackwardOps(joint);
    recomputeInPlace(joint);
    return success();
  }
};

} // namespace
} // namespace qwen
