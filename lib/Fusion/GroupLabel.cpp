//===- GroupLabel.cpp - Names of groups -----------------------------------===//
//
// A name is for reading dumps, plans and profiles; nothing depends on it.
//
//===----------------------------------------------------------------------===//

#include "GroupBuilder.h"
#include "Passes.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace qwen;

/// More words than this make a name longer than it helps.
static constexpr size_t maxWords = 4;

/// Whether the result is multiplied by what the sigmoid was taken of.
static bool isSilu(SigmoidOp sigmoid) {
  return llvm::any_of(sigmoid->getUsers(), [&](Operation *user) {
    return isa<arith::MulFOp>(user) &&
           llvm::is_contained(user->getOperands(), sigmoid.getX());
  });
}

static bool isConstant(Value value) {
  Operation *op = value.getDefiningOp();
  return op && isSplatConstant(op);
}

/// The word for an op that tells what a group is for; empty for the others.
static StringRef telling(Operation *op) {
  if (isa<math::RsqrtOp>(op))
    return "rms_norm";
  if (auto sigmoid = dyn_cast<SigmoidOp>(op))
    return isSilu(sigmoid) ? "silu" : "sigmoid";
  if (isa<SoftplusOp>(op))
    return "softplus";
  if (isa<RopeOp>(op))
    return "rope";
  if (isa<math::ExpOp>(op))
    return "exp";
  return {};
}

/// The word for plain arithmetic between two tensors of the whole space; for
/// any op where nothing else names the group.
static StringRef plain(Operation *op, bool alone) {
  if (isColumnSum(op))
    return "column_sum";
  if (isRowSum(op))
    return alone ? "row_sum" : "";
  if (isa<arith::AddFOp, arith::MulFOp, arith::SubFOp, arith::DivFOp>(op) &&
      (alone ||
       (!isConstant(op->getOperand(0)) && !isConstant(op->getOperand(1))))) {
    if (isa<arith::AddFOp>(op))
      return "add";
    return isa<arith::MulFOp>(op) ? "mul"
           : alone                ? op->getName().stripDialect()
                                  : "";
  }
  return alone ? op->getName().stripDialect() : "";
}

/// Whether the op adds two values that other kernels wrote: a residual, or two
/// cotangents.
static bool addsInputs(const FusionGraph &graph, const Cluster &cluster,
                       Operation *op) {
  if (!isa<arith::AddFOp>(op))
    return false;
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    if (isConstant(operand))
      return false;
    Operation *producer = operand.getDefiningOp();
    while (producer && isa<arith::ExtFOp>(producer)) {
      operand = producer->getOperand(0);
      producer = operand.getDefiningOp();
    }
    return !producer || (!graph.isTransparent(producer) &&
                         graph.clusterOf(producer) != &cluster);
  });
}

std::string qwen::makeGroupLabel(const FusionGraph &graph,
                                 const Cluster &cluster) {
  SetVector<StringRef> words;
  for (unsigned n : cluster.nodes) {
    Operation *op = graph.op(n);
    StringRef word =
        addsInputs(graph, cluster, op) ? StringRef("add") : telling(op);
    if (!word.empty())
      words.insert(word);
  }
  bool told = !words.empty();
  bool alone = cluster.nodes.size() == 1;
  for (unsigned n : cluster.nodes) {
    Operation *op = graph.op(n);
    StringRef word = plain(op, alone);
    if (!word.empty() && (!told || word == "mul"))
      words.insert(word);
  }
  // A norm is full of products.
  if (words.contains("rms_norm"))
    words.remove("mul");
  if (words.empty())
    words.insert(graph.op(cluster.nodes.front())->getName().stripDialect());
  auto all = words.takeVector();
  if (all.size() > maxWords)
    all.truncate(maxWords);
  return llvm::join(all, "_");
}
