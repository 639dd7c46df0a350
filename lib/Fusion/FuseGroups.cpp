//===- FuseGroups.cpp - Outline elementwise and row-wise chains -----------===//

#include "GroupBuilder.h"
#include "Passes.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace qwen {
#define GEN_PASS_DEF_FUSEGROUPSPASS
#include "lib/Fusion/Passes.h.inc"
} // namespace qwen

using namespace mlir;
using namespace qwen;

static void eraseDeadOps(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if ((isFusable(&op) || isView(&op)) && isOpTriviallyDead(&op))
      op.erase();
}

namespace {
struct FuseGroups : qwen::impl::FuseGroupsPassBase<FuseGroups> {
  using FuseGroupsPassBase::FuseGroupsPassBase;

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (func.isDeclaration())
      return;
    if (!func.getBody().hasOneBlock()) {
      func.emitOpError("has control flow; expected straight-line code");
      return signalPassFailure();
    }
    Block &block = func.getBody().front();
    eraseDeadOps(block);
    FailureOr<FusionGraph> graph = FusionGraph::create(block, fuse);
    if (failed(graph))
      return signalPassFailure();
    if (fuse)
      graph->join();
    buildGroups(*graph, func);
    eraseDeadOps(block);
    sortTopologically(&block);
  }

private:
  void buildGroups(const FusionGraph &graph, func::FuncOp func) {
    SmallVector<const Cluster *> clusters = graph.clusters();
    SmallVector<GroupReport> reports;
    SmallVector<std::string> labels;
    // Building changes what the graph's ops are read by.
    bool isBackward = func.getSymName().ends_with("_backward");
    for (const Cluster *cluster : clusters) {
      reports.push_back(makeGroupReport(graph, *cluster, fuse));
      labels.push_back(makeGroupLabel(graph, *cluster) +
                       (isBackward ? "_backward" : ""));
    }
    for (auto [cluster, report, label] :
         llvm::zip_equal(clusters, reports, labels)) {
      GroupOp group = buildGroup(graph, *cluster, label);
      ++numGroups;
      numOps += report.ops;
      bytesBefore += report.bytesBefore;
      bytesAfter += report.bytesAfter;
      if (remarks)
        emitGroupRemark(group, report);
    }
  }
};
} // namespace
