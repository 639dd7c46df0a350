//===- GroupBuilder.cpp - From a cluster to a qwen.group ------------------===//

#include "GroupBuilder.h"
#include "Passes.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace qwen;

namespace {

/// Builds one group. A space of rank 1 is lifted to [1, N], so that a vector is
/// one row and not N rows of one element.
class GroupBuilder {
public:
  GroupBuilder(const FusionGraph &graph, const Cluster &cluster)
      : graph(graph), cluster(cluster), builder(graph.op(cluster.nodes.back())),
        loc(graph.op(cluster.nodes.back())->getLoc()) {
    builder.setInsertionPointAfter(graph.op(cluster.nodes.back()));
    chooseDomain();
  }

  GroupOp build(StringRef label);

private:
  void chooseDomain();
  RankedTensorType lift(RankedTensorType type) const;
  Value lookUp(Value value);
  Value addInput(Value value);
  void cloneOp(Operation *op);

  const FusionGraph &graph;
  const Cluster &cluster;
  OpBuilder builder;
  Location loc;
  SmallVector<int64_t> domain;
  bool lifted = false;
  IRMapping map;
  Block *body = nullptr;
  SmallVector<Value> inputs;
};

/// Where no op of the cluster runs over the whole rows, because the sums or
/// broadcasts that they belong to are elsewhere, the rows are the space.
void GroupBuilder::chooseDomain() {
  domain = cluster.domain;
  Operation *first = graph.op(cluster.nodes.front());
  bool rowsOnly = llvm::all_of(cluster.nodes, [&](unsigned n) {
    Operation *op = graph.op(n);
    return isElementwise(op) &&
           tensorType(op->getResult(0)).getShape() != ArrayRef<int64_t>(domain);
  });
  if (rowsOnly)
    domain = llvm::to_vector(tensorType(first->getResult(0)).getShape());
  lifted = domain.size() == 1;
  if (lifted)
    domain = {1, domain[0]};
}

/// The type inside the group. Scalars stay scalars beside vectors.
RankedTensorType GroupBuilder::lift(RankedTensorType type) const {
  if (!lifted || type.getRank() != 1)
    return type;
  return type.clone(domain);
}

Value GroupBuilder::addInput(Value value) {
  RankedTensorType type = lift(tensorType(value));
  Value input = value;
  if (type != value.getType())
    input = ReshapeOp::create(builder, loc, type, value);
  inputs.push_back(input);
  Value argument = body->addArgument(type, loc);
  map.map(value, argument);
  return argument;
}

Value GroupBuilder::lookUp(Value value) {
  if (Value known = map.lookupOrNull(value))
    return known;
  Operation *op = value.getDefiningOp();
  if (!op || !graph.isTransparent(op))
    return addInput(value);
  cloneOp(op);
  return map.lookup(value);
}

void GroupBuilder::cloneOp(Operation *op) {
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(lookUp(operand));
  OpBuilder inner(builder.getContext());
  inner.setInsertionPointToEnd(body);
  Value result = op->getResult(0);
  RankedTensorType type = lift(tensorType(result));
  if (type == result.getType()) {
    Operation *clone = inner.clone(*op, map);
    map.map(result, clone->getResult(0));
  } else if (isSplatConstant(op)) {
    map.map(result, cloneSplat(inner, op, type.getShape()));
  } else if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    // Only a scalar can be broadcast to a vector.
    map.map(result, BroadcastOp::create(inner, op->getLoc(), type, operands[0],
                                        ArrayRef<int64_t>{}));
  } else {
    map.map(result, cloneElementwise(inner, op, operands, type.getShape()));
  }
}

GroupOp GroupBuilder::build(StringRef label) {
  Region region;
  body = &region.emplaceBlock();
  for (unsigned n : cluster.nodes)
    cloneOp(graph.op(n));
  SmallVector<Value> outputs = graph.outputs(cluster), yielded;
  SmallVector<Type> types;
  for (Value output : outputs) {
    yielded.push_back(map.lookup(output));
    types.push_back(yielded.back().getType());
  }
  OpBuilder inner(builder.getContext());
  inner.setInsertionPointToEnd(body);
  YieldOp::create(inner, loc, yielded);

  auto group = GroupOp::create(builder, loc, types, inputs,
                               builder.getDenseI64ArrayAttr(domain),
                               builder.getStringAttr(label));
  group.getBody().takeBody(region);
  for (auto [output, result] : llvm::zip_equal(outputs, group.getResults())) {
    Value outer = result;
    if (outer.getType() != output.getType())
      outer = ReshapeOp::create(builder, loc, output.getType(), outer);
    output.replaceAllUsesWith(outer);
  }
  return group;
}

} // namespace

GroupOp qwen::buildGroup(const FusionGraph &graph, const Cluster &cluster,
                         StringRef label) {
  return GroupBuilder(graph, cluster).build(label);
}
