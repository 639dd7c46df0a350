//===- InlineCalls.cpp - Make each program one flat list ------------------===//
//
// Copies callee bodies to their calls and labels the copies.
//
//===----------------------------------------------------------------------===//

#include "dialects/Qwen/Specialization.h"
#include "lib/Memory/Passes.h"
#include "lib/Memory/ProgramMemory.h"

#include "mlir/IR/IRMapping.h"

namespace qwen {
#define GEN_PASS_DEF_INLINECALLSPASS
#include "lib/Memory/Passes.h.inc"
} // namespace qwen

using namespace mlir;
using namespace qwen;

namespace {

/// The part before the last dot that all names share: "model.layers.3" of
/// "model.layers.3.mlp.up" and "model.layers.3.norm". Empty where there is
/// none.
std::string commonPrefix(ArrayRef<StringRef> names) {
  if (names.empty())
    return "";
  StringRef prefix = names.front().rsplit('.').first;
  auto covers = [](StringRef name, StringRef p) {
    return name.starts_with(p) && name.drop_front(p.size()).starts_with(".");
  };
  for (StringRef name : names)
    while (!prefix.empty() && !covers(name, prefix))
      prefix = prefix.contains('.') ? prefix.rsplit('.').first : StringRef();
  return prefix.str();
}

/// What the call works on, and the callee's name.
std::string labelOf(func::CallOp call, StringRef callee) {
  SmallVector<StringRef> names;
  for (Value operand : call.getOperands()) {
    // A gathered parameter's view names it.
    ArrayAttr parameters;
    if (auto view = operand.getDefiningOp<kernel::ViewOp>())
      parameters = view->getAttrOfType<ArrayAttr>("qwen.parameters");
    if (auto storage = rootOf(operand).root.getDefiningOp<kernel::StorageOp>())
      parameters = storage.getParameters();
    if (parameters)
      for (auto name : parameters.getAsRange<SymbolRefAttr>())
        names.push_back(name.getRootReference().getValue());
  }
  std::string prefix = commonPrefix(names);
  if (!prefix.empty())
    prefix += " ";
  return prefix + callee.str();
}

class InlineCallsPass
    : public qwen::impl::InlineCallsPassBase<InlineCallsPass> {
public:
  void runOnOperation() override;

private:
  LogicalResult inlineInto(func::FuncOp program);
  LogicalResult inlineTree(func::CallOp call, int64_t number);
  LogicalResult inlineCall(func::CallOp call, int64_t number,
                           SmallVectorImpl<func::CallOp> &nested);

  std::optional<SymbolTable> symbols;
};

/// Replaces one call by its callee's body; calls in it go to `nested`.
LogicalResult
InlineCallsPass::inlineCall(func::CallOp call, int64_t number,
                            SmallVectorImpl<func::CallOp> &nested) {
  auto callee = symbols->lookup<func::FuncOp>(call.getCallee());
  if (!callee || callee.isExternal())
    return call.emitOpError()
           << "callee @" << call.getCallee() << " has no body";
  if (!callee.getBody().hasOneBlock() || call.getNumResults() != 0)
    return call.emitOpError() << "callee @" << call.getCallee()
                              << " must have one block and no results";
  if (callee == call->getParentOp())
    return call.emitOpError("a program must not call itself");
  OpBuilder builder(call);
  // A nested call's launches belong to the outermost call.
  auto outer = call->getAttrOfType<IntegerAttr>("qwen.call");
  Attribute numberAttr = outer ? outer : builder.getI64IntegerAttr(number);
  Attribute calleeAttr =
      outer ? call->getAttr("qwen.callee") : originalName(callee);
  Attribute labelAttr =
      outer ? call->getAttr("qwen.label")
            : builder.getStringAttr(labelOf(call, originalName(callee)));
  IRMapping mapping;
  mapping.map(callee.getArguments(), call.getOperands());
  for (Operation &op : callee.getBody().front().without_terminator()) {
    Operation *copy = builder.clone(op, mapping);
    auto inner = dyn_cast<func::CallOp>(copy);
    if (!inner && !isa<kernel::KernelOpInterface>(copy))
      continue;
    copy->setAttr("qwen.call", numberAttr);
    copy->setAttr("qwen.callee", calleeAttr);
    copy->setAttr("qwen.label", labelAttr);
    if (inner)
      nested.push_back(inner);
  }
  call.erase();
  ++numCalls;
  return success();
}

/// A call with everything below it, depth first: a function that calls itself
/// then shows after as many steps as there are functions.
LogicalResult InlineCallsPass::inlineTree(func::CallOp call, int64_t number) {
  size_t limit = llvm::range_size(getOperation().getOps<func::FuncOp>());
  SmallVector<std::pair<func::CallOp, size_t>> stack = {{call, 1}};
  while (!stack.empty()) {
    auto [next, depth] = stack.pop_back_val();
    if (depth > limit)
      return next.emitOpError()
             << "calls never end: @" << next.getCallee() << " calls itself";
    SmallVector<func::CallOp> nested;
    if (failed(inlineCall(next, number, nested)))
      return failure();
    for (func::CallOp inner : llvm::reverse(nested))
      stack.emplace_back(inner, depth + 1);
  }
  return success();
}

LogicalResult InlineCallsPass::inlineInto(func::FuncOp program) {
  if (!program.getBody().hasOneBlock())
    return program.emitOpError("a program must have one block");
  SmallVector<func::CallOp> calls(program.getOps<func::CallOp>());
  for (auto [number, call] : llvm::enumerate(calls))
    if (failed(inlineTree(call, number)))
      return failure();
  return success();
}

void InlineCallsPass::runOnOperation() {
  ModuleOp module = getOperation();
  symbols.emplace(module);
  for (func::FuncOp program : programsOf(module))
    if (failed(inlineInto(program)))
      return signalPassFailure();
  for (auto function :
       llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (!function->hasAttr("qwen.program"))
      function.erase();
}

} // namespace
