//===- FusionRemarks.cpp - What was fused, and why not more ---------------===//

#include "GroupBuilder.h"
#include "Passes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace qwen;

static std::string shapeText(ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "[";
  llvm::interleaveComma(shape, os);
  os << "]";
  return text;
}

/// Why the kernel of `value` ends before the fusable op `reader`.
static std::string whyNotJoined(const FusionGraph &graph,
                                const Cluster &cluster, Operation *reader,
                                bool fuse) {
  std::string name = reader->getName().getStringRef().str();
  const Cluster *other = graph.clusterOf(reader);
  if (!fuse)
    return name + " reads it, fusion is off";
  if (other->domain != cluster.domain)
    return name + " reads it over another iteration space, " +
           shapeText(other->domain);
  JoinVerdict verdict = graph.canJoin(cluster, *other);
  if (verdict.columnSum)
    return name + " reads it, and a column sum is complete only after all rows";
  if (verdict.between)
    return name + " reads it, but joining would create a cycle through " +
           verdict.between->getName().getStringRef().str();
  return name + " reads it";
}

/// Why the chain ends at `value` for the reader `op`, views looked through.
static void addReasons(const FusionGraph &graph, const Cluster &cluster,
                       Operation *op, bool fuse,
                       SmallVectorImpl<std::string> &reasons) {
  auto add = [&](std::string reason) {
    if (!llvm::is_contained(reasons, reason))
      reasons.push_back(std::move(reason));
  };
  StringRef name = op->getName().getStringRef();
  if (graph.clusterOf(op) == &cluster)
    return;
  if (isa<func::ReturnOp>(op))
    add("@" + op->getParentOfType<func::FuncOp>().getSymName().str() +
        " returns it (its result, or a residual for the backward)");
  else if (isView(op))
    for (Value result : op->getResults())
      for (Operation *reader : graph.readers(result))
        addReasons(graph, cluster, reader, fuse, reasons);
  else if (graph.clusterOf(op))
    add(whyNotJoined(graph, cluster, op, fuse));
  else if (isa<LinearOp, LinearAddOp, MatmulOp>(op))
    add("operand of the matrix product " + name.str());
  else if (auto call = dyn_cast<func::CallOp>(op))
    add("argument of @" + call.getCallee().str());
  else if (isa<AccumulateGradOp>(op))
    add("added to a parameter's gradient");
  else
    add("operand of the hand-written kernel " + name.str());
}

GroupReport qwen::makeGroupReport(const FusionGraph &graph,
                                  const Cluster &cluster, bool fuse) {
  GroupReport report;
  llvm::MapVector<StringRef, int64_t> counts;
  auto addAlone = [&](Operation *op) {
    if (isSplatConstant(op))
      return;
    ++report.ops;
    ++counts[op->getName().getStringRef()];
    for (Value operand : op->getOperands())
      if (!operand.getDefiningOp() || !isSplatConstant(operand.getDefiningOp()))
        report.bytesBefore += tensorBytes(operand.getType());
    report.bytesBefore += tensorBytes(op->getResult(0).getType());
  };
  for (Operation *op : graph.recomputed(cluster))
    addAlone(op);
  for (unsigned n : cluster.nodes)
    addAlone(graph.op(n));
  for (Value input : graph.inputs(cluster))
    report.bytesAfter += tensorBytes(input.getType());

  llvm::raw_string_ostream held(report.held);
  llvm::interleaveComma(counts, held, [&](auto &entry) {
    if (entry.second > 1)
      held << entry.second << " ";
    held << entry.first;
  });

  for (auto [i, output] : llvm::enumerate(graph.outputs(cluster))) {
    report.bytesAfter += tensorBytes(output.getType());
    SmallVector<std::string> reasons;
    for (Operation *reader : graph.readers(output))
      addReasons(graph, cluster, reader, fuse, reasons);
    std::string text;
    llvm::raw_string_ostream os(text);
    os << "result #" << i << " ends here: " << llvm::join(reasons, "; ");
    report.ends.push_back(text);
  }
  return report;
}

void qwen::emitGroupRemark(GroupOp group, const GroupReport &report) {
  InFlightDiagnostic remark = group.emitRemark();
  remark << "group '" << group.getLabel().value_or("") << "' over ["
         << group.getDomain() << "] holds " << report.ops
         << (report.ops == 1 ? " op: " : " ops: ") << report.held << "; bytes "
         << report.bytesBefore << " -> " << report.bytesAfter;
  for (const std::string &end : report.ends)
    remark.attachNote(group.getLoc()) << end;
}
