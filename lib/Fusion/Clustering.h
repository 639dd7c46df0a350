//===- Clustering.h - Which ops run as one kernel --------------*- C++ -*-===//
//
// The dependence graph of one block and the greedy joining of its fusable ops.
// Nothing is rewritten here; GroupBuilder.cpp makes groups of the result.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_FUSION_CLUSTERING_H
#define QWEN_LIB_FUSION_CLUSTERING_H

#include "FusableOps.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

namespace qwen {

/// Ops that become one group.
struct Cluster {
  /// Node numbers, ascending.
  llvm::SmallVector<unsigned> nodes;
  /// Iteration space; of rank 1 for vectors that do not belong to rows.
  llvm::SmallVector<int64_t> domain;
};

/// Why two clusters stay apart.
struct JoinVerdict {
  bool legal = true;
  /// The op between the two that would close a cycle, if that is the reason.
  mlir::Operation *between = nullptr;
  /// The column sum that the other cluster reads, if that is the reason.
  mlir::Operation *columnSum = nullptr;
};

/// Nodes are the ops of a block, except the transparent ones: constants,
/// widenings, broadcasts, arithmetic on these alone and what cannot be stored
/// are computed again in each group that reads them, unless something outside
/// of groups does.
class FusionGraph {
public:
  /// With `fuse` false only constants and unstorable values are transparent,
  /// and every op keeps its own shape as iteration space. Fails with an emitted
  /// error on an op without a possible iteration space.
  static mlir::FailureOr<FusionGraph> create(mlir::Block &block, bool fuse);

  /// Joins ops with their readers, then clusters that share work.
  void join();

  /// Clusters of fusable ops, in block order of their first op.
  llvm::SmallVector<const Cluster *> clusters() const;

  /// Whether and why not the two clusters may become one.
  JoinVerdict canJoin(const Cluster &a, const Cluster &b) const;

  mlir::Operation *op(unsigned node) const { return nodes[node]; }
  bool isTransparent(mlir::Operation *op) const {
    return transparent.contains(op);
  }
  /// The cluster of a fusable node's op, null for other ops.
  const Cluster *clusterOf(mlir::Operation *op) const;
  /// Ops that read `value` directly or through transparent ops.
  llvm::SetVector<mlir::Operation *> readers(mlir::Value value) const;
  /// Values from outside of the cluster that its ops read, through transparent
  /// ops.
  llvm::SetVector<mlir::Value> inputs(const Cluster &cluster) const;
  /// Values of the cluster that ops outside of it read.
  llvm::SmallVector<mlir::Value> outputs(const Cluster &cluster) const;
  /// Transparent ops that the cluster computes again, constants included.
  llvm::SetVector<mlir::Operation *> recomputed(const Cluster &cluster) const;

private:
  explicit FusionGraph(bool fuse) : fuse(fuse) {}

  void findTransparent(mlir::Block &block);
  void addNodes(mlir::Block &block);
  mlir::LogicalResult assignDomains(mlir::Block &block);
  llvm::DenseMap<mlir::Value, llvm::SmallVector<int64_t>>
  findRowDomains(mlir::Block &block) const;
  void joinReaders();
  void joinSiblings();
  bool areSiblings(const Cluster &a, const Cluster &b) const;
  bool isLaunchBound(const Cluster &cluster) const;
  llvm::SetVector<mlir::Operation *>
  kernelsAround(const Cluster &cluster) const;
  void merge(unsigned into, unsigned from);
  mlir::Operation *findBetween(const Cluster &from, const Cluster &to) const;

  bool fuse;
  llvm::DenseSet<mlir::Operation *> transparent;
  llvm::SmallVector<mlir::Operation *> nodes;
  llvm::DenseMap<mlir::Operation *, unsigned> nodeOf;
  llvm::SmallVector<llvm::SmallVector<unsigned>> users;
  /// Cluster number of each node; every node has one, fusable or not.
  llvm::SmallVector<unsigned> clusterNumber;
  llvm::SmallVector<Cluster> allClusters;
};

} // namespace qwen

#endif // QWEN_LIB_FUSION_CLUSTERING_H
