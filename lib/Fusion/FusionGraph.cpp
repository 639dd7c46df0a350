//===- FusionGraph.cpp - Dependences and iteration spaces -----------------===//

#include "Clustering.h"
#include "Passes.h"

#include "llvm/ADT/EquivalenceClasses.h"

using namespace mlir;
using namespace qwen;

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

/// Elementwise ops on nothing but constants and broadcasts: what they read is a
/// vector or a value a row, so making them again is cheaper than a tensor in
/// memory. 1 + w of a norm's weight is one.
static DenseSet<Operation *> findSpreadValues(Block &block) {
  DenseSet<Operation *> spread;
  for (Operation &op : block)
    if (isElementwise(&op) && llvm::all_of(op.getOperands(), [&](Value value) {
          Operation *producer = value.getDefiningOp();
          return producer &&
                 (isSplatConstant(producer) || isa<BroadcastOp>(producer) ||
                  spread.contains(producer));
        }))
      spread.insert(&op);
  return spread;
}

void FusionGraph::findTransparent(Block &block) {
  DenseSet<Operation *> spread = findSpreadValues(block);
  for (Operation &op : llvm::reverse(block)) {
    if (!isFusable(&op))
      continue;
    // A constant is written where it stands outside of groups.
    if (isSplatConstant(&op) || !isStorable(op.getResult(0))) {
      transparent.insert(&op);
      continue;
    }
    if (fuse && (isa<arith::ExtFOp, BroadcastOp>(op) || spread.contains(&op)) &&
        llvm::all_of(op.getUsers(),
                     [](Operation *user) { return isFusable(user); }))
      transparent.insert(&op);
  }
}

SetVector<Operation *> FusionGraph::readers(Value value) const {
  SetVector<Operation *> result;
  SmallVector<Value> worklist{value};
  while (!worklist.empty())
    for (Operation *user : worklist.pop_back_val().getUsers()) {
      if (!transparent.contains(user))
        result.insert(user);
      else
        worklist.push_back(user->getResult(0));
    }
  return result;
}

void FusionGraph::addNodes(Block &block) {
  for (Operation &op : block)
    if (!transparent.contains(&op)) {
      nodeOf[&op] = nodes.size();
      nodes.push_back(&op);
    }
  users.resize(nodes.size());
  for (auto [n, op] : llvm::enumerate(nodes)) {
    llvm::SmallSetVector<unsigned, 8> reading;
    for (Value result : op->getResults())
      for (Operation *reader : readers(result))
        if (auto it = nodeOf.find(reader); it != nodeOf.end())
          reading.insert(it->second);
    users[n].assign(reading.begin(), reading.end());
  }
}

//===----------------------------------------------------------------------===//
// Iteration spaces
//===----------------------------------------------------------------------===//

/// Row values and the space of their rows. An elementwise chain of one shape
/// belongs to a larger space where it begins with row sums or ends in row
/// broadcasts of that space.
DenseMap<Value, SmallVector<int64_t>>
FusionGraph::findRowDomains(Block &block) const {
  llvm::EquivalenceClasses<void *> chains;
  DenseMap<Value, SmallVector<int64_t>> seeds;
  auto key = [](Value value) { return value.getAsOpaquePointer(); };
  for (Operation &op : block) {
    if (isRowSum(&op)) {
      auto sum = cast<ReduceSumOp>(op);
      chains.insert(key(sum.getY()));
      seeds[sum.getY()] = llvm::to_vector(tensorType(sum.getX()).getShape());
    } else if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      RankedTensorType to = tensorType(broadcast.getY());
      chains.insert(key(broadcast.getX()));
      if (isRowBroadcast(broadcast) &&
          tensorType(broadcast.getX()).getRank() + 1 == to.getRank())
        seeds[broadcast.getX()] = llvm::to_vector(to.getShape());
    } else if (isElementwise(&op)) {
      chains.insert(key(op.getResult(0)));
      for (Value operand : op.getOperands())
        if (!operand.getDefiningOp() ||
            !isSplatConstant(operand.getDefiningOp()))
          chains.unionSets(key(op.getResult(0)), key(operand));
    }
  }

  // A chain with two possible spaces keeps its own.
  DenseMap<void *, SmallVector<int64_t>> spaceOf;
  DenseSet<void *> ambiguous;
  for (auto &[value, domain] : seeds) {
    void *leader = chains.getLeaderValue(key(value));
    auto [it, isNew] = spaceOf.try_emplace(leader, domain);
    if (!isNew && it->second != domain)
      ambiguous.insert(leader);
  }
  DenseMap<Value, SmallVector<int64_t>> result;
  for (Operation &op : block) {
    if (!isElementwise(&op))
      continue;
    void *leader = chains.getLeaderValue(key(op.getResult(0)));
    auto it = spaceOf.find(leader);
    if (it != spaceOf.end() && !ambiguous.contains(leader))
      result[op.getResult(0)] = it->second;
  }
  return result;
}

LogicalResult FusionGraph::assignDomains(Block &block) {
  DenseMap<Value, SmallVector<int64_t>> rowDomains;
  if (fuse)
    rowDomains = findRowDomains(block);
  allClusters.resize(nodes.size());
  for (auto [n, op] : llvm::enumerate(nodes)) {
    clusterNumber.push_back(n);
    Cluster &cluster = allClusters[n];
    cluster.nodes.push_back(n);
    if (!isFusable(op))
      continue;
    Value space = op->getResult(0);
    if (isa<ReduceSumOp>(op))
      space = op->getOperand(0);
    auto row = rowDomains.find(op->getResult(0));
    if (row != rowDomains.end())
      cluster.domain = row->second;
    else
      cluster.domain = llvm::to_vector(tensorType(space).getShape());
    if (cluster.domain.empty() || cluster.domain.size() > 3)
      return op->emitOpError() << "runs over " << cluster.domain.size()
                               << " dimensions, but a fused group over 1 to 3";
  }
  return success();
}

FailureOr<FusionGraph> FusionGraph::create(Block &block, bool fuse) {
  FusionGraph graph(fuse);
  graph.findTransparent(block);
  graph.addNodes(block);
  if (failed(graph.assignDomains(block)))
    return failure();
  return graph;
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

const Cluster *FusionGraph::clusterOf(Operation *op) const {
  auto it = nodeOf.find(op);
  if (it == nodeOf.end() || !isFusable(op))
    return nullptr;
  return &allClusters[clusterNumber[it->second]];
}

SmallVector<const Cluster *> FusionGraph::clusters() const {
  SmallVector<const Cluster *> result;
  for (auto [n, op] : llvm::enumerate(nodes)) {
    const Cluster &cluster = allClusters[clusterNumber[n]];
    if (isFusable(op) && cluster.nodes.front() == n)
      result.push_back(&cluster);
  }
  return result;
}

SetVector<Operation *> FusionGraph::recomputed(const Cluster &cluster) const {
  SetVector<Operation *> result;
  SmallVector<Operation *> worklist;
  for (unsigned n : cluster.nodes)
    worklist.push_back(nodes[n]);
  while (!worklist.empty())
    for (Value operand : worklist.pop_back_val()->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (producer && transparent.contains(producer) && result.insert(producer))
        worklist.push_back(producer);
    }
  return result;
}

SetVector<Value> FusionGraph::inputs(const Cluster &cluster) const {
  SetVector<Value> result;
  auto addOperands = [&](Operation *op) {
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (!producer ||
          (!transparent.contains(producer) && clusterOf(producer) != &cluster))
        result.insert(operand);
    }
  };
  for (unsigned n : cluster.nodes)
    addOperands(nodes[n]);
  for (Operation *op : recomputed(cluster))
    addOperands(op);
  return result;
}

SmallVector<Value> FusionGraph::outputs(const Cluster &cluster) const {
  SmallVector<Value> result;
  for (unsigned n : cluster.nodes)
    if (llvm::any_of(users[n], [&](unsigned user) {
          return &allClusters[clusterNumber[user]] != &cluster;
        }))
      result.push_back(nodes[n]->getResult(0));
  return result;
}
