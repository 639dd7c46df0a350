//===- WeightAnalysis.cpp - Which values are weights ----------------------===//
//
// A greatest fixed point over the call graph: all arguments of called functions
// start as weights, and every call with another operand refutes one.
//
//===----------------------------------------------------------------------===//

#include "lib/Autodiff/WeightAnalysis.h"

#include "dialects/Qwen/Qwen.h"

using namespace mlir;

namespace qwen {

bool WeightAnalysis::isWeight(Value value, const llvm::BitVector &arguments) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return argument.getArgNumber() < arguments.size() &&
           arguments.test(argument.getArgNumber());
  Operation *op = value.getDefiningOp();
  if (isa<GetParameterOp>(op))
    return true;
  return isa<ReshapeOp, SplitOp, ConcatOp, BroadcastOp>(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return isWeight(operand, arguments);
         });
}

WeightAnalysis::WeightAnalysis(ModuleOp module) {
  SmallVector<func::CallOp> calls;
  module.walk([&](func::CallOp call) { calls.push_back(call); });
  for (auto func : module.getOps<func::FuncOp>())
    weights[func.getSymName()].resize(func.getNumArguments());
  for (func::CallOp call : calls)
    weights[call.getCallee()].set();

  for (bool changed = true; changed;) {
    changed = false;
    for (func::CallOp call : calls) {
      auto caller = call->getParentOfType<func::FuncOp>();
      // Copies of the caller's bits: recursion may alias the two.
      llvm::BitVector outer = weights[caller.getSymName()];
      llvm::BitVector &bits = weights[call.getCallee()];
      for (auto [i, operand] : llvm::enumerate(call.getOperands())) {
        if (bits.test(i) && !isWeight(operand, outer)) {
          bits.reset(i);
          changed = true;
        }
      }
    }
  }
}

const llvm::BitVector &WeightAnalysis::arguments(func::FuncOp func) const {
  return weights.find(func.getSymName())->second;
}

} // namespace qwen
