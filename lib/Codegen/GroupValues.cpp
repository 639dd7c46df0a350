//===- GroupValues.cpp - Values of a group's body -------------------------===//

#include "GroupValues.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace qwen;

bool GroupValues::isRowInput(BlockArgument argument) const {
  bool isAngles = llvm::any_of(argument.getUsers(), [&](Operation *user) {
    auto rope = dyn_cast<RopeOp>(user);
    return rope && rope.getAngles() == argument;
  });
  return !isAngles && !analysis.runsOverColumns(argument);
}

LogicalResult GroupValues::emitRowValues(int sweep, ValueMap &rowValues) {
  for (Operation &op : body.without_terminator()) {
    if (isa<RopeOp, ReduceSumOp>(op))
      continue;
    Value result = op.getResult(0);
    if (analysis.runsOverColumns(result) || analysis.sweep(result) > sweep ||
        rowValues.count(result))
      continue;
    if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      rowValues[result] = rowValues.lookup(broadcast.getX());
      continue;
    }
    SmallVector<Value> operands;
    for (Value operand : op.getOperands())
      operands.push_back(rowValues.lookup(operand));
    auto value = emitElementwise(b, op, operands, 0, processor);
    if (failed(value))
      return failure();
    rowValues[result] = *value;
  }
  return success();
}

FailureOr<Value> GroupValues::operandAt(Value value,
                                        const ColumnContext &context) {
  if (analysis.runsOverColumns(value))
    return columnValue(value, context);
  if (auto it = context.memo.find(value); it != context.memo.end())
    return it->second;
  Value scalar = context.rowValues.lookup(value);
  Value vector = vector::BroadcastOp::create(
      b, value.getLoc(), VectorType::get({context.width}, scalar.getType()),
      scalar);
  context.memo[value] = vector;
  return vector;
}

FailureOr<Value> GroupValues::columnValue(Value value,
                                          const ColumnContext &context) {
  if (auto it = context.memo.find(value); it != context.memo.end())
    return it->second;
  Value result = context.leaf(value);
  if (!result) {
    Operation &op = *value.getDefiningOp();
    SmallVector<Value> operands;
    for (Value operand : op.getOperands()) {
      auto x = operandAt(operand, context);
      if (failed(x))
        return failure();
      operands.push_back(*x);
    }
    FailureOr<Value> emitted =
        isa<BroadcastOp>(op)
            ? FailureOr<Value>(operands[0])
            : emitElementwise(b, op, operands, context.width, processor);
    if (failed(emitted))
      return failure();
    result = *emitted;
  }
  context.memo[value] = result;
  return result;
}

Value qwen::horizontalSum(OpBuilder &b, Location loc, Value vector) {
  int64_t width = cast<VectorType>(vector.getType()).getDimSize(0);
  for (; width > 1; width /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < width / 2; ++i) {
      low.push_back(i);
      high.push_back(i + width / 2);
    }
    Value l = vector::ShuffleOp::create(b, loc, vector, vector, low);
    Value h = vector::ShuffleOp::create(b, loc, vector, vector, high);
    vector = arith::AddFOp::create(b, loc, l, h);
  }
  return vector::ExtractOp::create(b, loc, vector, ArrayRef<int64_t>{0});
}
