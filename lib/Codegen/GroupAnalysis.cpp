//===- GroupAnalysis.cpp - Phases of a fused group ------------------------===//

#include "GroupAnalysis.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace mlir;
using namespace qwen;

bool qwen::isRowSum(ReduceSumOp op, const GroupAnalysis &analysis) {
  ArrayRef<int64_t> in = analysis.dims(op.getX());
  return llvm::is_contained(op.getDims(),
                            static_cast<int64_t>(in.size()) - 1) &&
         analysis.runsOverColumns(op.getX());
}

int64_t GroupAnalysis::rows() const {
  int64_t n = 1;
  for (auto [i, size] : llvm::enumerate(domainShape))
    if (static_cast<int64_t>(i) != columnDim)
      n *= size;
  return n;
}

LogicalResult GroupAnalysis::setDims(Value value, ArrayRef<int64_t> dims,
                                     bool &changed) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getRank() != static_cast<int64_t>(dims.size()))
    return emitError(value.getLoc(), "group value of rank ")
           << type.getRank() << " cannot run over " << dims.size()
           << " dimensions";
  for (auto [i, dim] : llvm::enumerate(dims))
    if (type.getDimSize(i) != domainShape[dim])
      return emitError(value.getLoc(), "group value has size ")
             << type.getDimSize(i) << " where the iteration space has "
             << domainShape[dim];
  auto [it, inserted] = dimMap.try_emplace(value, dims.begin(), dims.end());
  if (inserted) {
    changed = true;
    return success();
  }
  if (ArrayRef<int64_t>(it->second) != dims)
    return emitError(value.getLoc(),
                     "group value is used over two different sets of "
                     "dimensions of the iteration space");
  return success();
}

/// Spreads known dimension maps across one op, in both directions.
LogicalResult GroupAnalysis::propagateDims(Operation &op, bool &changed) {
  auto known = [&](Value v) { return dimMap.count(v) != 0; };
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    if (!known(broadcast.getY()))
      return success();
    SmallVector<int64_t> in;
    for (int64_t dim : broadcast.getDims())
      in.push_back(dimMap[broadcast.getY()][dim]);
    return setDims(broadcast.getX(), in, changed);
  }
  if (auto sum = dyn_cast<ReduceSumOp>(op)) {
    if (!known(sum.getX()))
      return success();
    SmallVector<int64_t> out;
    for (auto [i, dim] : llvm::enumerate(dimMap[sum.getX()]))
      if (!llvm::is_contained(sum.getDims(), static_cast<int64_t>(i)))
        out.push_back(dim);
    return setDims(sum.getY(), out, changed);
  }
  SmallVector<Value> values;
  if (auto rope = dyn_cast<RopeOp>(op))
    values = {rope.getX(), rope.getY()}; // the angles have their own columns
  else if (!isa<YieldOp>(op))
    llvm::append_range(values,
                       llvm::concat<Value>(llvm::to_vector(op.getOperands()),
                                           llvm::to_vector(op.getResults())));
  auto source = llvm::find_if(values, known);
  if (source == values.end())
    return success();
  SmallVector<int64_t> dims = dimMap[*source];
  for (Value value : values)
    if (failed(setDims(value, dims, changed)))
      return failure();
  return success();
}

LogicalResult GroupAnalysis::assignDims(kernel::GroupFunctionOp op) {
  Block &body = op.getBody().front();
  SmallVector<int64_t> all(domainShape.size());
  std::iota(all.begin(), all.end(), 0);
  bool changed = false;
  auto seed = [&](Value value) -> LogicalResult {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type)
      return emitError(value.getLoc(), "group value is not a ranked tensor");
    if (type.getShape() == ArrayRef<int64_t>(domainShape))
      return setDims(value, all, changed);
    if (type.getRank() == 0)
      return setDims(value, {}, changed);
    return success();
  };
  for (Value argument : body.getArguments())
    if (failed(seed(argument)))
      return failure();
  for (Operation &inner : body)
    for (Value result : inner.getResults())
      if (failed(seed(result)))
        return failure();
  do {
    changed = false;
    for (Operation &inner : body)
      if (failed(propagateDims(inner, changed)))
        return failure();
  } while (changed);

  // The angles of a rotation run over tokens and their own columns.
  for (auto rope : body.getOps<RopeOp>())
    if (isa<BlockArgument>(rope.getAngles()))
      dimMap.try_emplace(rope.getAngles(), SmallVector<int64_t>{0});
    else
      return rope.emitOpError("needs its angles as an input of the group");
  for (Operation &inner : body)
    for (Value value : llvm::concat<Value>(llvm::to_vector(inner.getOperands()),
                                           llvm::to_vector(inner.getResults())))
      if (!dimMap.count(value))
        return emitError(value.getLoc(), "cannot tell over which dimensions of "
                                         "the iteration space this group value "
                                         "runs");
  return success();
}

void GroupAnalysis::assignSweeps(Block &body) {
  for (Value argument : body.getArguments())
    sweepOf[argument] = 0;
  for (Operation &op : body.without_terminator()) {
    int first = 0;
    for (Value operand : op.getOperands())
      first = std::max(first, sweepOf[operand]);
    auto sum = dyn_cast<ReduceSumOp>(op);
    bool endsSweep = isa<RopeOp>(op) || (sum && isRowSum(sum, *this));
    for (Value result : op.getResults())
      sweepOf[result] = first + (endsSweep ? 1 : 0);
    sweeps = std::max(sweeps, first + (endsSweep ? 2 : 1));
  }
  // A row value that only scalar code needs does not cost a further sweep.
  int needed = 0;
  bool storesColumns = false;
  for (Value value : body.getTerminator()->getOperands()) {
    auto sum = value.getDefiningOp<ReduceSumOp>();
    bool columnSum = sum && !isRowSum(sum, *this);
    bool columns = columnSum || runsOverColumns(value);
    storesColumns |= columns;
    needed = std::max(needed, columns ? sweepOf[value] + 1 : sweepOf[value]);
  }
  sweeps = std::max(1, needed);
}

/// Row sums go over the last dimension alone; column sums over all others, and
/// they leave the group.
LogicalResult GroupAnalysis::checkSums(Block &body) const {
  for (auto sum : body.getOps<ReduceSumOp>()) {
    int64_t rank = cast<RankedTensorType>(sum.getX().getType()).getRank();
    if (isRowSum(sum, *this)) {
      if (sum.getDims().size() != 1)
        return sum.emitOpError("in a group sums over the last dimension alone "
                               "or over all others");
      continue;
    }
    bool isResult =
        llvm::is_contained(body.getTerminator()->getOperands(), sum.getY());
    if (rank != static_cast<int64_t>(domain().size()) ||
        static_cast<int64_t>(sum.getDims().size()) != rank - 1 || !isResult ||
        !llvm::all_of(sum->getUsers(), llvm::IsaPred<YieldOp>))
      return sum.emitOpError("over rows must cover all leading dimensions of "
                             "the iteration space and be a result only");
  }
  return success();
}

FailureOr<GroupAnalysis> GroupAnalysis::create(kernel::GroupFunctionOp op) {
  GroupAnalysis analysis;
  llvm::append_range(analysis.domainShape, op.getDomain());
  int64_t rank = analysis.domainShape.size();
  if (rank < 1 || rank > 3)
    return op.emitOpError("iteration space has rank ")
           << rank << ", expected 1 to 3";
  analysis.columnDim = rank == 1 ? -1 : rank - 1;
  Block &body = op.getBody().front();
  if (failed(analysis.assignDims(op)) || failed(analysis.checkSums(body)))
    return failure();
  analysis.assignSweeps(body);
  return analysis;
}
