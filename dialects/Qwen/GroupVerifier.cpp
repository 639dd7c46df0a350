//===- GroupVerifier.cpp - What a fused group may hold --------------------===//
//
// The rules of qwen.group: its signature, which ops its body may have, and
// where sums may stand.
//
//===----------------------------------------------------------------------===//

#include "dialects/Qwen/Qwen.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace qwen;

LogicalResult GroupOp::verify() {
  int64_t rank = getDomain().size();
  if (rank < 1 || rank > 3)
    return emitOpError() << "domain must have 1 to 3 dimensions, but has "
                         << rank;
  for (int64_t size : getDomain())
    if (size < 1 || size > maxDimension)
      return emitOpError() << "domain must have dimensions between 1 and "
                           << maxDimension << ", but is [" << getDomain()
                           << "]";
  if (getOutputs().empty())
    return emitOpError("must have at least one result");
  return success();
}

static bool isElementwise(Operation *op) {
  if (isa<arith::ConstantOp, SigmoidOp, SoftplusOp, BroadcastOp>(op))
    return true;
  StringRef dialect = op->getName().getDialectNamespace();
  return (dialect == "arith" || dialect == "math") &&
         OpTrait::hasElementwiseMappableTraits(op);
}

/// A row sum drops the last dimension; a column sum drops all others and is
/// complete only after the last row, so nothing but the group's end may use it.
static LogicalResult verifySum(ReduceSumOp sum) {
  auto type = cast<RankedTensorType>(sum.getX().getType());
  int64_t rank = type.getRank();
  ArrayRef<int64_t> dims = sum.getDims();
  if (dims.size() == 1 && dims[0] == rank - 1 && rank > 1)
    return success();
  bool isColumnSum = static_cast<int64_t>(dims.size()) == rank - 1;
  for (auto [i, dim] : llvm::enumerate(dims))
    isColumnSum &= dim == static_cast<int64_t>(i);
  if (!isColumnSum)
    return sum.emitOpError()
           << "in a group must sum over the last dimension (a row sum) or over "
              "all leading ones (a column sum), but sums over ["
           << dims << "] of " << type;
  for (Operation *user : sum->getUsers())
    if (!isa<YieldOp>(user))
      return sum.emitOpError("is a column sum and may only be a result of the "
                             "group")
                 .attachNote(user->getLoc())
             << "used here";
  return success();
}

LogicalResult GroupOp::verifyRegions() {
  Block &body = getBody().front();
  if (body.getArgumentTypes() != getInputs().getTypes())
    return emitOpError() << "must have one block argument of the same type "
                            "for each of its "
                         << getInputs().size() << " inputs";
  auto yield = dyn_cast<YieldOp>(body.getTerminator());
  if (!yield)
    return emitOpError("must end in qwen.yield");
  if (yield.getValues().getTypes() != getOutputs().getTypes())
    return yield.emitOpError()
           << "must yield the group's results (" << getOutputs().getTypes()
           << "), but yields (" << yield.getValues().getTypes() << ")";
  for (Operation &op : body.without_terminator()) {
    if (auto sum = dyn_cast<ReduceSumOp>(op)) {
      if (failed(verifySum(sum)))
        return failure();
    } else if (!isElementwise(&op) && !isa<RopeOp>(op)) {
      return op.emitOpError("is not allowed in a group: only elementwise "
                            "arith and math ops, constants, qwen.sigmoid, "
                            "softplus, broadcast, rope and reduce_sum are");
    }
  }
  return success();
}
