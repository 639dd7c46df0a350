//===- GroupBuilder.h - From a cluster to a qwen.group ---------*- C++ -*-===//

#ifndef QWEN_LIB_FUSION_GROUPBUILDER_H
#define QWEN_LIB_FUSION_GROUPBUILDER_H

#include "Clustering.h"

namespace qwen {

/// What a remark says of a group.
struct GroupReport {
  int64_t ops = 0;
  std::string held;
  int64_t bytesBefore = 0;
  int64_t bytesAfter = 0;
  /// One sentence a result: why the chain ended there.
  llvm::SmallVector<std::string> ends;
};

/// Makes the cluster a group behind its last op, and lets everything read the
/// group's results. The cluster's ops stay, dead. The order of the block is to
/// be restored by a topological sort.
GroupOp buildGroup(const FusionGraph &graph, const Cluster &cluster,
                   llvm::StringRef label);

/// A readable name from what the ops do, such as "add_rms_norm".
std::string makeGroupLabel(const FusionGraph &graph, const Cluster &cluster);

/// To be asked before the cluster is built. `fuse` as in the pass.
GroupReport makeGroupReport(const FusionGraph &graph, const Cluster &cluster,
                            bool fuse);

/// Emits the report as a remark at the group.
void emitGroupRemark(GroupOp group, const GroupReport &report);

} // namespace qwen

#endif // QWEN_LIB_FUSION_GROUPBUILDER_H
