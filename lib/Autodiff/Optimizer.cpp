//===- Optimizer.cpp - Program update -------------------------------------===//

#include "lib/Autodiff/Passes.h"

#include "dialects/Qwen/Qwen.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Regex.h"

using namespace mlir;

namespace qwen {

#define GEN_PASS_DEF_OPTIMIZERPASS
#include "lib/Autodiff/Passes.h.inc"

namespace {

/// What one qwen.adamw is given beside the parameters.
struct AdamWClass {
  bool decay;
  Type element;
  bool operator==(const AdamWClass &) const = default;
};

struct OptimizerPass : impl::OptimizerPassBase<OptimizerPass> {
  using OptimizerPassBase::OptimizerPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(checkOptions(module)) || failed(applyNoDecay(module)))
      return signalPassFailure();
    SmallVector<ParameterOp> parameters = trainedParameters(module);
    if (parameters.empty()) {
      module.emitError("expected parameters with gradients to optimize, found "
                       "no qwen.accumulate_grad");
      return signalPassFailure();
    }
    if (Operation *taken = module.lookupSymbol("update")) {
      taken->emitError("name '@update' is reserved for a program");
      return signalPassFailure();
    }
    buildUpdate(module, parameters);
  }

private:
  LogicalResult checkOptions(ModuleOp module) {
    if (momentType != "f32" && momentType != "bf16")
      return module.emitError("option moment-type should be f32 or bf16, found "
                              "'")
             << momentType << "'";
    if (masters != "f32" && masters != "none")
      return module.emitError("option masters should be f32 or none, found '")
             << masters << "'";
    return success();
  }

  /// Rewrites the attribute `decay` of every parameter by the option no-decay.
  LogicalResult applyNoDecay(ModuleOp module) {
    if (noDecay.empty())
      return success();
    for (auto parameter : module.getOps<ParameterOp>())
      parameter.setDecay(true);
    for (const std::string &pattern : noDecay) {
      llvm::Regex regex(pattern);
      std::string problem;
      if (!regex.isValid(problem))
        return module.emitError("option no-decay: '")
               << pattern << "' is not a regular expression: " << problem;
      bool matched = false;
      for (auto parameter : module.getOps<ParameterOp>()) {
        if (!regex.match(parameter.getSymName()))
          continue;
        parameter.setDecay(false);
        matched = true;
      }
      if (!matched)
        return module.emitError("option no-decay: no parameter matches '")
               << pattern << "'";
    }
    return success();
  }

  /// Parameters with a gradient, in the module's order.
  static SmallVector<ParameterOp> trainedParameters(ModuleOp module) {
    llvm::StringSet<> trained;
    module.walk([&](AccumulateGradOp op) {
      for (auto name : op.getParameters().getAsRange<FlatSymbolRefAttr>())
        trained.insert(name.getValue());
    });
    SmallVector<ParameterOp> parameters;
    for (auto parameter : module.getOps<ParameterOp>())
      if (trained.contains(parameter.getSymName()))
        parameters.push_back(parameter);
    return parameters;
  }

  void buildUpdate(ModuleOp module, ArrayRef<ParameterOp> parameters) {
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    // Gradients and step sizes are as wide as the widest parameter's.
    Type wide = builder.getF32Type();
    for (ParameterOp parameter : parameters)
      if (elementOf(parameter).isF64())
        wide = builder.getF64Type();
    auto hyperType = RankedTensorType::get({8}, wide);
    auto rngType = RankedTensorType::get({2}, builder.getI32Type());
    auto statsType = RankedTensorType::get({4}, wide);
    Location loc = module.getLoc();
    auto update = func::FuncOp::create(
        builder, loc, "update",
        builder.getFunctionType({hyperType, rngType}, {statsType}));
    update->setAttr("qwen.program", builder.getUnitAttr());
    update.setArgAttr(0, "qwen.input", builder.getStringAttr("hyper"));
    update.setArgAttr(1, "qwen.input", builder.getStringAttr("rng"));
    update.setResultAttr(0, "qwen.output", builder.getStringAttr("stats"));
    Block *body = update.addEntryBlock();
    builder.setInsertionPointToEnd(body);
    Value hyper = body->getArgument(0), rng = body->getArgument(1);

    Value stats = GradNormOp::create(builder, loc, statsType, hyper,
                                     namesOf(builder, parameters));
    SmallVector<std::pair<AdamWClass, SmallVector<ParameterOp>>> classes;
    for (ParameterOp parameter : parameters) {
      AdamWClass wanted{parameter.getDecay(), elementOf(parameter)};
      auto *found = llvm::find_if(
          classes, [&](auto &entry) { return entry.first == wanted; });
      if (found == classes.end())
        found = &classes.emplace_back(wanted, SmallVector<ParameterOp>());
      found->second.push_back(parameter);
    }
    for (auto &[kind, members] : classes)
      AdamWOp::create(builder, loc, hyper, stats, rng,
                      namesOf(builder, members),
                      builder.getBoolAttr(kind.decay),
                      TypeAttr::get(momentTypeOf(kind.element)),
                      masterTypeOf(kind.element));
    func::ReturnOp::create(builder, loc, stats);
  }

  static Type elementOf(ParameterOp parameter) {
    return getElementTypeOrSelf(parameter.getType());
  }

  static ArrayAttr namesOf(Builder &builder, ArrayRef<ParameterOp> parameters) {
    SmallVector<Attribute> names;
    for (ParameterOp parameter : parameters)
      names.push_back(FlatSymbolRefAttr::get(parameter.getSymNameAttr()));
    return builder.getArrayAttr(names);
  }

  Type momentTypeOf(Type element) {
    Builder builder(&getContext());
    if (element.isF64())
      return element;
    return momentType == "bf16" ? Type(builder.getBF16Type())
                                : Type(builder.getF32Type());
  }

  /// Master copies only where the parameter itself is narrower.
  TypeAttr masterTypeOf(Type element) {
    if (!element.isBF16() || masters == "none")
      return {};
    return TypeAttr::get(Builder(&getContext()).getF32Type());
  }
};

} // namespace
} // namespace qwen
