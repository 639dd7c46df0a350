//===- Residuals.cpp - What the backward reads of the forward -------------===//
//
// Which values to keep is a minimum cut. Nodes are the values that the backward
// could start from; an edge through a value costs its bytes, nothing for
// arguments, parameters and results. What the forward writes to memory anyway
// (kernel results and kernel operands) is a source: it is kept rather than
// computed twice. Only ops that fuse into elementwise chains are repeated. Of
// equal cuts the one nearest to the backward is taken: it repeats least.
//
//===----------------------------------------------------------------------===//

#include "lib/Autodiff/Residuals.h"

#include "dialects/Qwen/Qwen.h"
#include "lib/Autodiff/DerivedFunctions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/DenseSet.h"

#include <deque>
#include <limits>

using namespace mlir;

namespace qwen {

namespace {

//===----------------------------------------------------------------------===//
// Minimum cut
//===----------------------------------------------------------------------===//

/// Edmonds-Karp on a graph of some dozens of nodes.
class FlowNetwork {
public:
  static constexpr int64_t unlimited = std::numeric_limits<int64_t>::max() / 4;
  static constexpr unsigned source = 0, sink = 1;

  FlowNetwork() : adjacent(2) {}

  unsigned addNode() {
    adjacent.emplace_back();
    return adjacent.size() - 1;
  }
  void addEdge(unsigned from, unsigned to, int64_t capacity) {
    adjacent[from].push_back(edges.size());
    edges.push_back({to, capacity});
    adjacent[to].push_back(edges.size());
    edges.push_back({from, 0});
  }

  /// Saturates the network; true for nodes on the sink's side of the minimum
  /// cut that is nearest to the sink.
  llvm::BitVector sinkSide() {
    SmallVector<int> edgeTo;
    while (findPath(edgeTo)) {
      int64_t flow = unlimited;
      for (unsigned node = sink; node != source;
           node = edges[edgeTo[node] ^ 1].to)
        flow = std::min(flow, edges[edgeTo[node]].capacity);
      for (unsigned node = sink; node != source;
           node = edges[edgeTo[node] ^ 1].to) {
        edges[edgeTo[node]].capacity -= flow;
        edges[edgeTo[node] ^ 1].capacity += flow;
      }
    }
    llvm::BitVector reached(adjacent.size());
    reached.set(sink);
    std::deque<unsigned> queue = {sink};
    while (!queue.empty()) {
      unsigned node = queue.front();
      queue.pop_front();
      for (unsigned edge : adjacent[node]) {
        unsigned from = edges[edge].to;
        if (reached.test(from) || edges[edge ^ 1].capacity == 0)
          continue;
        reached.set(from);
        queue.push_back(from);
      }
    }
    return reached;
  }

private:
  struct Edge {
    unsigned to;
    int64_t capacity;
  };

  /// Breadth first; `edgeTo` gets the edge by which each node was reached, -1
  /// for the others. True if the sink was reached.
  bool findPath(SmallVector<int> &edgeTo) const {
    edgeTo.assign(adjacent.size(), -1);
    std::deque<unsigned> queue = {source};
    while (!queue.empty()) {
      unsigned node = queue.front();
      queue.pop_front();
      for (unsigned edge : adjacent[node]) {
        unsigned to = edges[edge].to;
        if (to == source || edgeTo[to] >= 0 || edges[edge].capacity == 0)
          continue;
        edgeTo[to] = edge;
        queue.push_back(to);
      }
    }
    return edgeTo[sink] >= 0;
  }

  std::vector<Edge> edges;
  std::vector<SmallVector<unsigned, 4>> adjacent;
};

//===----------------------------------------------------------------------===//
// Selection
//===----------------------------------------------------------------------===//

/// Ops that become views of their operand's memory.
bool isView(Operation *op) { return isa_and_nonnull<ReshapeOp, SplitOp>(op); }

/// Ops that fuse into elementwise and row-wise chains, so that computing them
/// again costs no memory traffic of its own.
bool isRepeatable(Operation *op) {
  return isa<arith::ConstantOp, SigmoidOp, SoftplusOp, RmsNormOp, BroadcastOp,
             ReduceSumOp, RopeOp>(op) ||
         (op->hasTrait<OpTrait::Elementwise>() && isMemoryEffectFree(op));
}

/// The value whose memory holds `value`.
Value rootOf(Value value) {
  while (isView(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

class Selection {
public:
  explicit Selection(const JointFunction &joint)
      : joint(joint), primal(joint.primal.begin(), joint.primal.end()) {
    for (Operation *op : joint.primal)
      if (!isRepeatable(op) && !isView(op))
        for (Value operand : op->getOperands())
          inMemory.insert(rootOf(operand));
    for (Value result : joint.results)
      inMemory.insert(rootOf(result));

    for (Operation *op : joint.backwardOps())
      for (Value operand : op->getOperands())
        if (isPrimal(operand))
          network.addEdge(outOf(visit(rootOf(operand))), FlowNetwork::sink,
                          FlowNetwork::unlimited);
    llvm::BitVector backward = network.sinkSide();
    for (auto [value, node] : nodes)
      if (!backward.test(node) && backward.test(outOf(node)))
        kept.insert(value);
  }

  /// True for values that exist before the backward ops.
  bool isPrimal(Value value) const {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return argument.getArgNumber() < joint.primalArguments;
    return primal.contains(value.getDefiningOp());
  }
  /// True for values that the backward reads rather than computes.
  bool isKept(Value value) const {
    return isa<BlockArgument>(value) || kept.contains(value);
  }

private:
  static unsigned outOf(unsigned node) { return node + 1; }

  /// The node of `value`, a root; adds what it is computed from.
  unsigned visit(Value value) {
    if (auto found = nodes.find(value); found != nodes.end())
      return found->second;
    unsigned node = network.addNode();
    network.addNode();
    nodes.insert({value, node});
    Operation *op = value.getDefiningOp();
    bool free = !op || isa<GetParameterOp>(op) ||
                llvm::is_contained(joint.results, value);
    network.addEdge(node, outOf(node), free ? 0 : tensorBytes(value.getType()));
    if (!op || !isRepeatable(op) ||
        (inMemory.contains(value) && !isa<arith::ConstantOp>(op))) {
      network.addEdge(FlowNetwork::source, node, FlowNetwork::unlimited);
      return node;
    }
    for (Value operand : op->getOperands()) {
      unsigned from = outOf(visit(rootOf(operand)));
      network.addEdge(from, node, FlowNetwork::unlimited);
    }
    return node;
  }

  const JointFunction &joint;
  llvm::DenseSet<Operation *> primal;
  llvm::DenseSet<Value> inMemory, kept;
  llvm::MapVector<Value, unsigned> nodes;
  FlowNetwork network;
};

/// Repeats primal ops where the backward needs their results. Kept values are
/// in the mapping beforehand, or stay themselves.
class Repeater {
public:
  Repeater(const Selection &selection, OpBuilder &builder, IRMapping &mapping)
      : selection(selection), builder(builder), mapping(mapping) {}

  Value get(Value value) {
    if (Value known = mapping.lookupOrNull(value))
      return known;
    if (!selection.isPrimal(value) || staysInPlace(value))
      return value;
    Operation *op = value.getDefiningOp();
    for (Value operand : op->getOperands())
      get(operand);
    builder.clone(*op, mapping);
    return mapping.lookup(value);
  }

private:
  /// In one function, kept values and views of them are at hand.
  bool staysInPlace(Value value) const {
    return selection.isKept(rootOf(value)) &&
           value.getParentBlock() == builder.getInsertionBlock();
  }

  const Selection &selection;
  OpBuilder &builder;
  IRMapping &mapping;
};

/// The kept values that the backward starts from, in order of definition.
SmallVector<Value> keptLeaves(const JointFunction &joint,
                              const Selection &selection) {
  llvm::DenseSet<Value> seen;
  SmallVector<Value> pending, leaves;
  for (Operation *op : joint.backwardOps())
    for (Value operand : op->getOperands())
      if (selection.isPrimal(operand))
        pending.push_back(operand);
  func::FuncOp func = joint.func;
  for (Value result : func.getBody().front().getTerminator()->getOperands())
    if (selection.isPrimal(result))
      pending.push_back(result);
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    if (selection.isKept(value) && !value.getDefiningOp<GetParameterOp>())
      leaves.push_back(value);
    else
      llvm::append_range(pending, value.getDefiningOp()->getOperands());
  }
  // Values first, by place in the block; then arguments by number.
  auto rank = [](Value value) { return isa<BlockArgument>(value) ? 1 : 0; };
  llvm::sort(leaves, [&](Value a, Value b) {
    if (rank(a) != rank(b))
      return rank(a) < rank(b);
    if (rank(a) == 1)
      return cast<BlockArgument>(a).getArgNumber() <
             cast<BlockArgument>(b).getArgNumber();
    auto left = cast<OpResult>(a), right = cast<OpResult>(b);
    if (left.getOwner() == right.getOwner())
      return left.getResultNumber() < right.getResultNumber();
    return left.getOwner()->isBeforeInBlock(right.getOwner());
  });
  return leaves;
}

} // namespace

//===----------------------------------------------------------------------===//
// Interface
//===----------------------------------------------------------------------===//

SmallVector<Operation *> JointFunction::backwardOps() const {
  llvm::DenseSet<Operation *> isPrimal(primal.begin(), primal.end());
  SmallVector<Operation *> ops;
  func::FuncOp joint = func;
  for (Operation &op : joint.getBody().front().without_terminator())
    if (!isPrimal.contains(&op))
      ops.push_back(&op);
  return ops;
}

void eraseDeadBackwardOps(const JointFunction &joint) {
  SmallVector<Operation *> ops = joint.backwardOps();
  for (Operation *op : llvm::reverse(ops))
    if (isOpTriviallyDead(op))
      op->erase();
}

void recomputeInPlace(const JointFunction &joint) {
  Selection selection(joint);
  IRMapping mapping;
  for (Operation *op : joint.backwardOps()) {
    OpBuilder builder(op);
    Repeater repeater(selection, builder, mapping);
    for (OpOperand &operand : op->getOpOperands())
      operand.set(repeater.get(operand.get()));
  }
}

/// Leaves of a joint function what computes `results`.
static void keepForward(const JointFunction &joint, ArrayRef<Value> results) {
  func::FuncOp forward = joint.func;
  Block &body = forward.getBody().front();
  Operation *terminator = body.getTerminator();
  terminator->setOperands(results);
  SmallVector<Operation *> backwardOps = joint.backwardOps();
  for (Operation *op : llvm::reverse(backwardOps))
    op->erase();
  llvm::BitVector cotangents(forward.getNumArguments());
  cotangents.set(joint.primalArguments, forward.getNumArguments());
  body.eraseArguments(cotangents);
  forward.setType(FunctionType::get(forward.getContext(),
                                    body.getArgumentTypes(),
                                    terminator->getOperandTypes()));
  // The attributes of arguments are those of the first, which all stay.
  if (ArrayAttr attributes = forward.getArgAttrsAttr())
    forward.setArgAttrsAttr(ArrayAttr::get(
        forward.getContext(),
        attributes.getValue().take_front(joint.primalArguments)));
}

func::FuncOp splitJointFunction(const JointFunction &joint,
                                ArrayRef<unsigned> cotangentResults,
                                DerivedFunction &derived) {
  func::FuncOp forward = joint.func;
  Operation *terminator = forward.getBody().front().getTerminator();
  Selection selection(joint);
  SmallVector<Value> results = joint.results;
  SmallVector<Value> leaves = keptLeaves(joint, selection);
  for (Value leaf : leaves) {
    if (auto argument = dyn_cast<BlockArgument>(leaf)) {
      derived.operands.push_back(
          {BackwardOperand::Argument, argument.getArgNumber()});
      continue;
    }
    // A residual that is a result already is not returned twice.
    auto *found = llvm::find(results, leaf);
    unsigned index = found - results.begin();
    if (found == results.end())
      results.push_back(leaf);
    derived.operands.push_back({BackwardOperand::ForwardResult, index});
  }
  for (auto [i, result] : llvm::enumerate(cotangentResults)) {
    leaves.push_back(forward.getArgument(joint.primalArguments + i));
    derived.operands.push_back({BackwardOperand::Cotangent, result});
  }

  OpBuilder builder(forward.getContext());
  auto type = builder.getFunctionType(TypeRange(ValueRange(leaves)),
                                      terminator->getOperandTypes());
  auto backward =
      func::FuncOp::create(builder, forward.getLoc(), "backward", type);
  backward.setPrivate();
  Block *entry = backward.addEntryBlock();
  builder.setInsertionPointToEnd(entry);
  IRMapping mapping;
  mapping.map(leaves, entry->getArguments());
  Repeater repeater(selection, builder, mapping);
  auto translate = [&](ValueRange values) {
    for (Value value : values)
      repeater.get(value);
  };
  for (Operation *op : joint.backwardOps()) {
    translate(op->getOperands());
    builder.clone(*op, mapping);
  }
  translate(terminator->getOperands());
  builder.clone(*terminator, mapping);

  keepForward(joint, results);
  return backward;
}

} // namespace qwen
