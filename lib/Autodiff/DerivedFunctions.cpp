//===- DerivedFunctions.cpp - Forward and backward functions --------------===//
//
// A clone of the function gets cotangents as arguments and backward ops at its
// end (ReverseSweep), and is then cut in two (Residuals).
//
//===----------------------------------------------------------------------===//

#include "lib/Autodiff/DerivedFunctions.h"

#include "dialects/Qwen/Qwen.h"
#include "lib/Autodiff/Residuals.h"
#include "lib/Autodiff/ReverseSweep.h"

#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"

using namespace mlir;

namespace qwen {

static std::vector<unsigned> setBits(const llvm::BitVector &bits) {
  return {bits.set_bits_begin(), bits.set_bits_end()};
}

DerivedFunctions::DerivedFunctions(ModuleOp module)
    : symbolTable(module), weightAnalysis(module) {}

bool DerivedFunctions::readsParameters(StringRef callee) {
  auto [entry, isNew] = readers.try_emplace(callee, false);
  if (!isNew)
    return entry->second;
  bool reads = false;
  auto func = symbolTable.lookup<func::FuncOp>(callee);
  func.walk([&](Operation *op) {
    if (isa<GetParameterOp>(op))
      reads = true;
    else if (auto call = dyn_cast<func::CallOp>(op))
      reads |= readsParameters(call.getCallee());
  });
  return readers[callee] = reads;
}

StringRef DerivedFunctions::originalName(func::FuncOp func) const {
  auto found = originalNames.find(func);
  return found == originalNames.end() ? func.getSymName()
                                      : StringRef(found->second);
}

void DerivedFunctions::setOriginalName(func::FuncOp func, StringRef name) {
  originalNames[func] = name.str();
}

FailureOr<const DerivedFunction *>
DerivedFunctions::get(func::CallOp call, const llvm::BitVector &active,
                      const llvm::BitVector &varying) {
  auto callee = symbolTable.lookup<func::FuncOp>(call.getCallee());
  std::string name = callee.getSymName().str();
  Key key(name, setBits(active), setBits(varying));
  if (auto found = memo.find(key); found != memo.end())
    return &found->second;
  if (!callee.getBody().hasOneBlock())
    return call.emitOpError("cannot be differentiated: function '@")
           << name << "' needs a body of one block";
  if (!open.insert(name).second)
    return call.emitOpError("cannot be differentiated: function '@")
           << name << "' calls itself";
  DerivedFunction derivative;
  if (failed(differentiate(callee, active, varying, derivative)))
    return failure();
  open.erase(name);
  return &memo.emplace(std::move(key), std::move(derivative)).first->second;
}

/// Backward functions build the same values for several rules (widened
/// operands, constants); one of each is enough.
static void mergeEqualOps(func::FuncOp func) {
  IRRewriter rewriter(func.getContext());
  DominanceInfo dominance(func);
  eliminateCommonSubExpressions(rewriter, dominance, func);
}

LogicalResult DerivedFunctions::differentiate(func::FuncOp callee,
                                              const llvm::BitVector &active,
                                              const llvm::BitVector &varying,
                                              DerivedFunction &result) {
  std::string name = callee.getSymName().str();
  func::FuncOp func = callee.clone();
  func.setName(name + "_forward");
  symbolTable.insert(func, std::next(callee->getIterator()));
  setOriginalName(func, name);

  Operation *terminator = func.getBody().front().getTerminator();
  llvm::BitVector weights = weightAnalysis.arguments(callee);
  ReverseSweep sweep(func, *this, varying, weights);
  unsigned arguments = func.getNumArguments();
  SmallVector<unsigned> cotangentResults(active.set_bits());
  for (unsigned i : cotangentResults) {
    Value value = terminator->getOperand(i);
    if (failed(func.insertArgument(func.getNumArguments(), value.getType(), {},
                                   value.getLoc())))
      return failure();
    sweep.seed(value, func.getArguments().back());
  }
  if (failed(sweep.run()))
    return failure();

  JointFunction joint{func, arguments, sweep.primalOps(),
                      llvm::to_vector(terminator->getOperands())};
  SmallVector<Value> cotangents;
  for (unsigned i = 0; i < arguments; ++i) {
    Value cotangent =
        varying.test(i) ? sweep.takeArgumentCotangent(i) : Value();
    result.argumentCotangents.push_back(cotangent ? cotangents.size() : -1);
    if (cotangent)
      cotangents.push_back(cotangent);
  }
  terminator->setOperands(cotangents);
  eraseDeadBackwardOps(joint);
  if (cotangents.empty() && joint.backwardOps().empty()) {
    symbolTable.erase(func);
    return success();
  }

  result.backward = splitJointFunction(joint, cotangentResults, result);
  result.forward = func;
  result.backward.setName(name + "_backward");
  symbolTable.insert(result.backward, std::next(func->getIterator()));
  mergeEqualOps(result.backward);
  residualCount += func.getNumResults() - callee.getNumResults();
  return success();
}

} // namespace qwen
