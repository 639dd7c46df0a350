//===- ReverseSweep.cpp - Backward ops of one function --------------------===//
//
// Every value's cotangents are collected, added once when its defining op is
// reached, and handed to that op's rule.
//
//===----------------------------------------------------------------------===//

#include "lib/Autodiff/ReverseSweep.h"

#include "dialects/Qwen/DerivativeBuilder.h"
#include "dialects/Qwen/Qwen.h"
#include "lib/Autodiff/DerivedFunctions.h"
#include "lib/Autodiff/WeightAnalysis.h"

using namespace mlir;

namespace qwen {

/// Only float tensors and scalars have cotangents.
static bool hasFloatElements(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

ReverseSweep::ReverseSweep(func::FuncOp func, DerivedFunctions &derived,
                           llvm::BitVector varyingArguments,
                           llvm::BitVector weights)
    : func(func), derived(derived), weights(std::move(weights)),
      build(func.getBody().front().getTerminator()) {
  Block &body = func.getBody().front();
  for (BlockArgument argument : body.getArguments()) {
    unsigned i = argument.getArgNumber();
    if (i < varyingArguments.size() && varyingArguments.test(i) &&
        hasFloatElements(argument))
      varying.insert(argument);
  }
  for (Operation &op : body.without_terminator()) {
    primal.push_back(&op);
    markVarying(&op);
  }
}

/// A float result varies with parameters if a parameter is what the op reads
/// or one of its operands varies.
void ReverseSweep::markVarying(Operation *op) {
  bool varies = isa<GetParameterOp>(op) ||
                llvm::any_of(op->getOperands(), [&](Value operand) {
                  return varying.contains(operand);
                });
  if (auto call = dyn_cast<func::CallOp>(op); call && !varies)
    varies = derived.readsParameters(call.getCallee());
  if (!varies)
    return;
  for (Value result : op->getResults())
    if (hasFloatElements(result))
      varying.insert(result);
}

void ReverseSweep::seed(Value value, Value cotangent) {
  addContribution(value, cotangent);
}

void ReverseSweep::addContribution(Value value, Value cotangent) {
  // A parameter's cotangent is final piece by piece: accumulating each at once
  // keeps no sum alive and lets its producer write the gradient itself.
  if (auto parameter = value.getDefiningOp<GetParameterOp>()) {
    Location loc = cotangent.getLoc();
    Value wide = DerivativeBuilder(build, loc).widen(cotangent);
    AccumulateGradOp::create(build, loc, parameter.getParametersAttr(), wide);
    return;
  }
  contributions[value].push_back(cotangent);
}

/// Adds the collected cotangents of `value`; null where there are none.
/// Narrow cotangents are added wide and the sum is rounded once, except for
/// weights, whose cotangents stay wide.
Value ReverseSweep::takeCotangent(Value value) {
  auto found = contributions.find(value);
  if (found == contributions.end())
    return nullptr;
  SmallVector<Value, 2> parts = std::move(found->second);
  contributions.erase(found);
  DerivativeBuilder d(build, value.getLoc());
  Value sum = parts.front();
  for (Value part : llvm::drop_begin(parts))
    sum = d.add(sum, part);
  Type element = getElementTypeOrSelf(value.getType());
  return WeightAnalysis::isWeight(value, weights) ? sum
                                                  : d.convert(sum, element);
}

Value ReverseSweep::takeArgumentCotangent(unsigned argument) {
  Value value = func.getArgument(argument);
  Value cotangent = takeCotangent(value);
  if (cotangent && WeightAnalysis::isWeight(value, weights))
    return DerivativeBuilder(build, value.getLoc()).widen(cotangent);
  return cotangent;
}

LogicalResult ReverseSweep::run() {
  for (Operation *&op : llvm::reverse(primal))
    if (failed(visit(op)))
      return failure();
  return success();
}

LogicalResult ReverseSweep::visit(Operation *&op) {
  bool reachesParameters =
      isa<func::CallOp>(op) || llvm::any_of(op->getOperands(), [&](Value v) {
        return varying.contains(v);
      });
  SmallVector<Value> cotangents;
  for (Value result : op->getResults())
    cotangents.push_back(reachesParameters && varying.contains(result)
                             ? takeCotangent(result)
                             : nullptr);
  if (llvm::all_of(cotangents, [](Value v) { return !v; }))
    return success();
  if (isa<func::CallOp>(op))
    return visitCall(op, cotangents);
  return applyRule(op, cotangents);
}

LogicalResult ReverseSweep::applyRule(Operation *op,
                                      ValueRange resultCotangents) {
  auto rule = dyn_cast<DifferentiableOpInterface>(op);
  if (!rule)
    return op->emitOpError("has no derivative rule, but a parameter influences "
                           "the loss through it in function '@")
           << derived.originalName(func) << "'";
  SmallVector<Value> operandCotangents(op->getNumOperands());
  if (failed(rule.buildDerivative(build, resultCotangents, operandCotangents)))
    return failure();
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    if (!varying.contains(operand))
      continue;
    if (!operandCotangents[i])
      return op->emitOpError("has no derivative with respect to operand #")
             << i << ", but that depends on a parameter in function '@"
             << derived.originalName(func) << "'";
    addContribution(operand, operandCotangents[i]);
  }
  return success();
}

/// Replaces a call of @f by one of @f_forward and appends one of @f_backward.
LogicalResult ReverseSweep::visitCall(Operation *&op,
                                      ValueRange resultCotangents) {
  auto call = cast<func::CallOp>(op);
  llvm::BitVector active(call.getNumResults()), depends(call.getNumOperands());
  for (auto [i, cotangent] : llvm::enumerate(resultCotangents))
    if (cotangent)
      active.set(i);
  for (auto [i, operand] : llvm::enumerate(call.getOperands()))
    if (varying.contains(operand))
      depends.set(i);
  FailureOr<const DerivedFunction *> derivative =
      derived.get(call, active, depends);
  if (failed(derivative))
    return failure();
  const DerivedFunction &f = **derivative;
  if (!f.backward)
    return success();

  OpBuilder atCall(call);
  func::FuncOp forwardFunc = f.forward;
  auto forward = func::CallOp::create(atCall, call.getLoc(), forwardFunc,
                                      call.getOperands());
  for (auto [before, after] :
       llvm::zip(call.getResults(), forward.getResults())) {
    before.replaceAllUsesWith(after);
    if (varying.erase(before))
      varying.insert(after);
  }
  SmallVector<Value> operands;
  for (const BackwardOperand &operand : f.operands)
    operands.push_back(operand.kind == BackwardOperand::ForwardResult
                           ? forward.getResult(operand.index)
                       : operand.kind == BackwardOperand::Argument
                           ? call.getOperand(operand.index)
                           : resultCotangents[operand.index]);
  auto backward =
      func::CallOp::create(build, call.getLoc(), f.backward, operands);
  for (auto [i, result] : llvm::enumerate(f.argumentCotangents))
    if (result >= 0)
      addContribution(call.getOperand(i), backward.getResult(result));
  op = forward;
  call.erase();
  return success();
}

} // namespace qwen
