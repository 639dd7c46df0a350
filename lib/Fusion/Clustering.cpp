//===- Clustering.cpp - Which ops run as one kernel -----------------------===//

#include "Clustering.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace qwen;

/// Bytes a row below which a group's launch costs more than its memory traffic.
static constexpr int64_t launchBoundRowBytes = 4096;

//===----------------------------------------------------------------------===//
// Legality
//===----------------------------------------------------------------------===//

/// An op outside of both clusters on a path from one to the other, or null.
Operation *FusionGraph::findBetween(const Cluster &from,
                                    const Cluster &to) const {
  unsigned last = to.nodes.back();
  BitVector visited(nodes.size());
  SmallVector<unsigned> worklist;
  DenseMap<unsigned, unsigned> firstStep;
  auto isIn = [&](unsigned node, const Cluster &cluster) {
    return &allClusters[clusterNumber[node]] == &cluster;
  };
  auto visit = [&](unsigned node, unsigned step) {
    // Joining moves a cluster's ops together: all of them are reached.
    for (unsigned n : allClusters[clusterNumber[node]].nodes)
      if (!visited.test(n)) {
        visited.set(n);
        firstStep[n] = step;
        worklist.push_back(n);
      }
  };
  for (unsigned n : from.nodes)
    for (unsigned user : users[n])
      if (!isIn(user, from) && !isIn(user, to))
        visit(user, user);
  while (!worklist.empty()) {
    unsigned node = worklist.pop_back_val();
    for (unsigned user : users[node]) {
      if (isIn(user, to))
        return nodes[firstStep[node]];
      // What begins after the last op of `to` cannot lead back to it.
      if (!isIn(user, from) &&
          allClusters[clusterNumber[user]].nodes.front() <= last)
        visit(user, firstStep[node]);
    }
  }
  return nullptr;
}

JoinVerdict FusionGraph::canJoin(const Cluster &a, const Cluster &b) const {
  JoinVerdict verdict;
  auto readsColumnSum = [&](const Cluster &from, const Cluster &to) {
    for (unsigned n : from.nodes)
      if (isColumnSum(nodes[n]) && llvm::any_of(users[n], [&](unsigned user) {
            return &allClusters[clusterNumber[user]] == &to;
          }))
        return nodes[n];
    return static_cast<Operation *>(nullptr);
  };
  verdict.columnSum = readsColumnSum(a, b);
  if (!verdict.columnSum)
    verdict.columnSum = readsColumnSum(b, a);
  if (!verdict.columnSum) {
    verdict.between = findBetween(a, b);
    if (!verdict.between)
      verdict.between = findBetween(b, a);
  }
  verdict.legal = !verdict.columnSum && !verdict.between;
  return verdict;
}

void FusionGraph::merge(unsigned into, unsigned from) {
  Cluster &target = allClusters[into];
  for (unsigned n : allClusters[from].nodes) {
    clusterNumber[n] = into;
    target.nodes.push_back(n);
  }
  llvm::sort(target.nodes);
  allClusters[from].nodes.clear();
}

//===----------------------------------------------------------------------===//
// Joining
//===----------------------------------------------------------------------===//

/// Last ops first, each with its readers: a value that a forward and a backward
/// group could both hold is then computed where it is read, and what crosses
/// from one to the other is what both need to begin with.
void FusionGraph::joinReaders() {
  bool changed;
  do {
    changed = false;
    for (unsigned n = nodes.size(); n-- > 0;) {
      if (!isFusable(nodes[n]))
        continue;
      for (unsigned reader : users[n]) {
        unsigned a = clusterNumber[n], b = clusterNumber[reader];
        if (a == b || !isFusable(nodes[reader]) ||
            allClusters[a].domain != allClusters[b].domain ||
            !canJoin(allClusters[a], allClusters[b]).legal)
          continue;
        merge(a, b);
        changed = true;
      }
    }
  } while (changed);
}

/// Whether the cluster's traffic is small beside the cost of its launch: values
/// such as the gates, a few elements a token.
bool FusionGraph::isLaunchBound(const Cluster &cluster) const {
  if (cluster.domain.size() != 2)
    return false;
  int64_t bytes = 0;
  for (Value input : inputs(cluster))
    bytes += tensorBytes(input.getType());
  for (Value output : outputs(cluster))
    bytes += tensorBytes(output.getType());
  return bytes <= launchBoundRowBytes * cluster.domain.front();
}

/// The kernels, other than groups, that feed the cluster or that it feeds.
SetVector<Operation *>
FusionGraph::kernelsAround(const Cluster &cluster) const {
  SetVector<Operation *> kernels, views;
  auto add = [&](Operation *op) {
    if (!op || isFusable(op) || isa<func::ReturnOp>(op))
      return;
    (isView(op) ? views : kernels).insert(op);
  };
  for (Value input : inputs(cluster))
    add(input.getDefiningOp());
  for (size_t i = 0; i < views.size(); ++i)
    for (Value operand : views[i]->getOperands())
      add(operand.getDefiningOp());
  views.clear();
  for (Value output : outputs(cluster))
    for (Operation *user : output.getUsers())
      add(user);
  for (size_t i = 0; i < views.size(); ++i)
    for (Operation *user : views[i]->getUsers())
      add(user);
  return kernels;
}

bool FusionGraph::areSiblings(const Cluster &a, const Cluster &b) const {
  // One read of a tensor that both read saves its bytes.
  SetVector<Value> read = inputs(a);
  for (Value input : inputs(b))
    if (read.contains(input) &&
        tensorType(input).getShape() == ArrayRef<int64_t>(a.domain))
      return true;
  if (!isLaunchBound(a) || !isLaunchBound(b))
    return false;
  SetVector<Operation *> around = kernelsAround(a);
  return llvm::any_of(kernelsAround(b), [&](Operation *kernel) {
    return around.contains(kernel);
  });
}

void FusionGraph::joinSiblings() {
  for (unsigned a = 0; a < allClusters.size(); ++a) {
    if (allClusters[a].nodes.empty() ||
        !isFusable(nodes[allClusters[a].nodes.front()]))
      continue;
    for (unsigned b = a + 1; b < allClusters.size(); ++b) {
      if (allClusters[b].nodes.empty() ||
          !isFusable(nodes[allClusters[b].nodes.front()]) ||
          allClusters[a].domain != allClusters[b].domain ||
          !areSiblings(allClusters[a], allClusters[b]) ||
          !canJoin(allClusters[a], allClusters[b]).legal)
        continue;
      merge(a, b);
      b = a; // a has grown: clusters that had nothing in common with it may.
    }
  }
}

void FusionGraph::join() {
  joinReaders();
  joinSiblings();
}
