//===- Recompute.cpp - Make forward values again in the backward pass -----===//
//
// Decides for each residual whether its launches can run again in the backward
// call of its layer, and copies them before the first reader.
//
//===----------------------------------------------------------------------===//

#include "lib/Memory/Passes.h"
#include "lib/Memory/ProgramMemory.h"

#include "mlir/IR/IRMapping.h"

namespace qwen {
#define GEN_PASS_DEF_RECOMPUTEPASS
#include "lib/Memory/Passes.h.inc"
} // namespace qwen

using namespace mlir;
using namespace qwen;
using kernel::KernelOpInterface;

namespace {

enum class Policy { None, Cheap, Full };

/// Number of the call that a launch was inlined from; -1 for none.
int64_t callOf(Operation *launch) {
  auto number = launch->getAttrOfType<IntegerAttr>("qwen.call");
  return number ? number.getInt() : -1;
}

StringRef calleeOf(Operation *launch) {
  auto name = launch->getAttrOfType<StringAttr>("qwen.callee");
  return name ? name.getValue() : StringRef();
}

/// Whether `backward` is the backward function of `forward`.
bool arePair(StringRef forward, StringRef backward) {
  return forward.consume_back("_forward") &&
         backward.consume_back("_backward") && forward == backward;
}

/// Launches whose results policy `cheap` holds.
bool isExpensive(Operation *launch) {
  return isa<kernel::GemmOp, kernel::AttentionOp, kernel::AttentionGradOp,
             kernel::GatedDeltaOp, kernel::GatedDeltaGradOp,
             kernel::LinearCrossEntropyOp, kernel::LinearCrossEntropyGradOp>(
      launch);
}

/// The bucket that a launch gathers, or null.
Attribute gatheredBucket(Operation *launch) {
  auto gather = dyn_cast<kernel::AllGatherOp>(launch);
  auto storage = gather ? gather.getShard().getDefiningOp<kernel::StorageOp>()
                        : kernel::StorageOp();
  return storage ? storage.getParameters()[0] : Attribute();
}

/// Recomputation in one program.
class Recomputer {
public:
  Recomputer(func::FuncOp program, Policy policy)
      : memory(program), policy(policy) {
    for (KernelOpInterface launch : memory.launches())
      if (Attribute bucket = gatheredBucket(launch))
        gathers[bucket].push_back(
            rootOf(cast<kernel::AllGatherOp>(*launch).getFull()).root);
  }

  /// Copies launches; returns how many.
  int64_t run();

private:
  /// The backward call that alone reads `root` after its own call; -1: none.
  int64_t backwardCallOf(Value root);
  bool canRecompute(Value root);
  bool decide(Value root);
  bool isAvailable(Value root, int64_t call);
  SmallVector<KernelOpInterface> writersOf(Value root);

  void rewrite(KernelOpInterface reader);
  Value recomputed(Value root, Operation *before);
  void copyLaunch(KernelOpInterface launch, Operation *before);
  Value viewOn(Value view, Value newRoot, OpBuilder &builder);
  /// The latest gather of the same bucket before `reader`, where `root` is one.
  Value latestGather(Value root, Operation *reader);

  ProgramMemory memory;
  Policy policy;
  llvm::DenseMap<Value, bool> decisions;
  /// State of the backward call at hand: new roots and launches copied.
  int64_t currentCall = -1;
  llvm::DenseMap<Value, Value> newRoots;
  llvm::DenseSet<Operation *> copied;
  int64_t numCopied = 0;
  /// Gathered buckets: the gathers' roots by bucket, in program order.
  llvm::DenseMap<Attribute, SmallVector<Value>> gathers;
};

SmallVector<KernelOpInterface> Recomputer::writersOf(Value root) {
  SmallVector<KernelOpInterface> writers;
  for (const Touch &touch : memory.touches(root))
    if (touch.writes)
      writers.push_back(memory.launches()[touch.step]);
  return writers;
}

int64_t Recomputer::backwardCallOf(Value root) {
  SmallVector<KernelOpInterface> writers = writersOf(root);
  if (writers.empty() || !root.getDefiningOp<memref::AllocOp>())
    return -1;
  int64_t call = callOf(writers.front());
  StringRef callee = calleeOf(writers.front());
  int64_t reader = -1;
  for (const Touch &touch : memory.touches(root)) {
    KernelOpInterface launch = memory.launches()[touch.step];
    int64_t other = callOf(launch);
    if (other == call)
      continue;
    bool isOnlyReader = !touch.writes && (reader == -1 || reader == other);
    if (!isOnlyReader || !arePair(callee, calleeOf(launch)))
      return -1;
    reader = other;
  }
  return call == -1 ? -1 : reader;
}

/// Whether the backward call can read `root`, a value that a launch of forward
/// call `call` reads, without anything being held for that alone.
bool Recomputer::isAvailable(Value root, int64_t call) {
  if (!root.getDefiningOp<memref::AllocOp>())
    return true;       // an argument or a storage
  bool isLocal = true; // touched by this forward call only
  for (const Touch &touch : memory.touches(root))
    isLocal &= callOf(memory.launches()[touch.step]) == call;
  return !isLocal || canRecompute(root);
}

bool Recomputer::decide(Value root) {
  SmallVector<KernelOpInterface> writers = writersOf(root);
  if (writers.empty())
    return false;
  int64_t call = callOf(writers.front());
  for (KernelOpInterface writer : writers) {
    if (callOf(writer) != call ||
        (policy == Policy::Cheap && isExpensive(writer)))
      return false;
    for (const OperandUse &use : operandUses(writer)) {
      Value other = rootOf(use.operand->get()).root;
      // Launches that add to something or change persistent memory run once.
      if (use.reads && use.writes)
        return false;
      if (use.writes && !other.getDefiningOp<memref::AllocOp>())
        return false;
      if (use.reads && !isAvailable(other, call))
        return false;
    }
  }
  return true;
}

bool Recomputer::canRecompute(Value root) {
  auto [entry, isNew] = decisions.try_emplace(root, false);
  if (!isNew)
    return entry->second;
  bool decision = decide(root);
  decisions[root] = decision;
  return decision;
}

/// `view`'s chain of views, on another root.
Value Recomputer::viewOn(Value view, Value newRoot, OpBuilder &builder) {
  auto op = view.getDefiningOp<kernel::ViewOp>();
  if (!op)
    return newRoot;
  IRMapping mapping;
  mapping.map(op.getSource(), viewOn(op.getSource(), newRoot, builder));
  return builder.clone(*op, mapping)->getResult(0);
}

void Recomputer::copyLaunch(KernelOpInterface launch, Operation *before) {
  if (!copied.insert(launch).second)
    return;
  SmallVector<OperandUse> uses = operandUses(launch);
  // Inputs first: their launches come before this one.
  llvm::DenseMap<Value, Value> inputs;
  for (const OperandUse &use : uses) {
    Value root = rootOf(use.operand->get()).root;
    if (use.reads)
      inputs[root] = recomputed(root, before);
  }
  OpBuilder builder(before);
  IRMapping mapping;
  for (const OperandUse &use : uses) {
    Value view = use.operand->get(), root = rootOf(view).root;
    if (use.writes && !newRoots.contains(root))
      newRoots[root] = builder.clone(*root.getDefiningOp())->getResult(0);
    Value newRoot = use.writes ? newRoots[root] : inputs[root];
    if (newRoot != root)
      mapping.map(view, viewOn(view, newRoot, builder));
  }
  Operation *copy = builder.clone(*launch, mapping);
  copy->setAttr("qwen.call", before->getAttr("qwen.call"));
  copy->setAttr("qwen.callee", before->getAttr("qwen.callee"));
  if (auto label = before->getAttrOfType<StringAttr>("qwen.label"))
    copy->setAttr("qwen.label",
                  builder.getStringAttr(label.getValue() + " recomputed"));
  ++numCopied;
}

/// A layer's backward pass has parameters of its own, gathered again; copies
/// of forward launches read those, or the forward's would live until then.
Value Recomputer::latestGather(Value root, Operation *reader) {
  ArrayRef<Touch> touches = memory.touches(root);
  if (gathers.empty() || touches.empty())
    return {};
  Attribute bucket = gatheredBucket(memory.launches()[touches.front().step]);
  Value latest;
  for (Value other : gathers.lookup(bucket)) {
    int64_t step = memory.touches(other).front().step;
    if (memory.launches()[step]->isBeforeInBlock(reader))
      latest = other;
  }
  return latest;
}

/// The copy of `root` in the current backward call, made where needed; `root`
/// itself where the forward's is used.
Value Recomputer::recomputed(Value root, Operation *before) {
  if (!root.getDefiningOp<memref::AllocOp>())
    return root;
  if (Value gathered = latestGather(root, before))
    return gathered;
  SmallVector<KernelOpInterface> writers = writersOf(root);
  if (writers.empty() || callOf(writers.front()) == currentCall)
    return root;
  // Values that others read too stay where they are.
  bool isLocal = true;
  for (const Touch &touch : memory.touches(root))
    isLocal &= callOf(memory.launches()[touch.step]) == callOf(writers.front());
  if ((!isLocal && backwardCallOf(root) != currentCall) || !canRecompute(root))
    return root;
  for (KernelOpInterface writer : writers)
    copyLaunch(writer, before);
  return newRoots.lookup(root);
}

void Recomputer::rewrite(KernelOpInterface reader) {
  if (callOf(reader) != currentCall) {
    currentCall = callOf(reader);
    newRoots.clear();
    copied.clear();
  }
  for (const OperandUse &use : operandUses(reader)) {
    Value view = use.operand->get(), root = rootOf(view).root;
    Value newRoot = recomputed(root, reader);
    if (newRoot == root)
      continue;
    OpBuilder builder(reader);
    use.operand->set(viewOn(view, newRoot, builder));
  }
}

int64_t Recomputer::run() {
  for (KernelOpInterface launch : memory.launches())
    if (callOf(launch) != -1 && calleeOf(launch).ends_with("_backward"))
      rewrite(launch);
  return numCopied;
}

class RecomputePass : public qwen::impl::RecomputePassBase<RecomputePass> {
public:
  using RecomputePassBase::RecomputePassBase;
  void runOnOperation() override {
    Policy chosen = Policy::None;
    if (policy == "cheap") {
      chosen = Policy::Cheap;
    } else if (policy == "full") {
      chosen = Policy::Full;
    } else if (policy != "none") {
      getOperation().emitError()
          << "recompute policy must be none, cheap or full, but is '" << policy
          << "'";
      return signalPassFailure();
    }
    if (chosen == Policy::None)
      return;
    for (func::FuncOp program : programsOf(getOperation()))
      numLaunches += Recomputer(program, chosen).run();
  }
};

} // namespace
