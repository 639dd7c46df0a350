//===- AssignStreams.cpp - Put collectives on a stream of their own -------===//
//
// Decides what waits for what; the results are attributes.
//
//===----------------------------------------------------------------------===//

#include "dialects/Kernel/KernelStreams.h"
#include "lib/Memory/Passes.h"
#include "lib/Memory/ProgramMemory.h"
#include "qwen/Plan/Streams.h"

namespace qwen {
#define GEN_PASS_DEF_ASSIGNSTREAMSPASS
#include "lib/Memory/Passes.h.inc"
} // namespace qwen

using namespace mlir;
using namespace qwen;
using kernel::KernelOpInterface;

namespace {

constexpr int64_t none = -1;

/// What identifies a root: storages of one bucket are one.
using Root = std::pair<Value, std::pair<unsigned, Attribute>>;

Root identify(Value root) {
  if (auto storage = root.getDefiningOp<kernel::StorageOp>())
    return {Value(),
            {static_cast<unsigned>(storage.getRole()),
             storage.getParametersAttr()}};
  return {root, {0, Attribute()}};
}

/// Whether a launch scatters gradients into a bucket.
bool isOfGradients(KernelOpInterface launch) {
  auto scatter = dyn_cast<kernel::ReduceScatterOp>(launch.getOperation());
  return scatter &&
         rootOf(scatter.getShard()).root.getDefiningOp<kernel::StorageOp>();
}

/// Walks one program front to back.
class StreamAssigner {
public:
  explicit StreamAssigner(func::FuncOp program) : memory(program) {
    for (KernelOpInterface launch : memory.launches())
      if (isOfGradients(launch))
        scattered.insert(
            rootOf(cast<kernel::ReduceScatterOp>(*launch).getFull()).root);
  }

  /// Returns the number of waits.
  int64_t run();

private:
  /// The last collectives that write and that touch a root.
  struct LastUse {
    int64_t write = none, touch = none;
  };

  void assignCollective(KernelOpInterface launch, int64_t step);
  void assignCompute(KernelOpInterface launch, int64_t step);
  int64_t throttle(KernelOpInterface launch);
  void wait(KernelOpInterface launch, int64_t step);

  ProgramMemory memory;
  llvm::DenseMap<Root, LastUse> uses;
  /// Latest launch of each stream.
  int64_t lastCompute = none, lastCollective = none;
  /// What each stream knows to be done on the other.
  int64_t knownCompute = none, knownCollective = none;
  int64_t numWaits = 0;
  /// Buffers that are scattered, and those among them that are written already.
  llvm::DenseSet<Value> scattered, begun;
  /// Latest scatter; that when the unit whose gradients are written now was
  /// begun; and when the one before it was.
  int64_t lastScatter = none, atUnit = none, beforeUnit = none;
};

void StreamAssigner::wait(KernelOpInterface launch, int64_t step) {
  kernel::addWait(launch, step);
  ++numWaits;
}

void StreamAssigner::assignCollective(KernelOpInterface launch, int64_t step) {
  kernel::setStream(launch, collectiveStream);
  if (lastCompute > knownCompute) {
    wait(launch, lastCompute);
    knownCompute = lastCompute;
  }
  for (const OperandUse &use : operandUses(launch)) {
    LastUse &last = uses[identify(rootOf(use.operand->get()).root)];
    last.touch = step;
    if (use.writes)
      last.write = step;
  }
  lastCollective = step;
  if (isOfGradients(launch))
    lastScatter = step;
}

/// Gradients of a unit are joined in memory of their own, which lives until
/// they are known to be scattered. A unit's first launch waits for the scatters
/// of the last unit but one, so that no more than two units' memory is in use.
int64_t StreamAssigner::throttle(KernelOpInterface launch) {
  bool begins = false;
  for (const OperandUse &use : operandUses(launch)) {
    Value root = rootOf(use.operand->get()).root;
    begins |=
        use.writes && scattered.contains(root) && begun.insert(root).second;
  }
  if (!begins || lastScatter == atUnit)
    return none;
  beforeUnit = atUnit;
  atUnit = lastScatter;
  return beforeUnit;
}

void StreamAssigner::assignCompute(KernelOpInterface launch, int64_t step) {
  int64_t needed = throttle(launch);
  for (const OperandUse &use : operandUses(launch)) {
    auto last = uses.find(identify(rootOf(use.operand->get()).root));
    if (last != uses.end())
      needed = std::max(needed,
                        use.writes ? last->second.touch : last->second.write);
  }
  if (needed > knownCollective) {
    wait(launch, needed);
    knownCollective = needed;
  }
  lastCompute = step;
}

int64_t StreamAssigner::run() {
  for (auto [step, launch] : llvm::enumerate(memory.launches()))
    if (kernel::isCollectiveLaunch(launch))
      assignCollective(launch, step);
    else
      assignCompute(launch, step);
  return numWaits;
}

/// The bucket of a shard; empty where it is no shard.
std::string bucketOf(Value shard) {
  auto storage = rootOf(shard).root.getDefiningOp<kernel::StorageOp>();
  if (!storage)
    return {};
  return cast<SymbolRefAttr>(storage.getParameters()[0])
      .getRootReference()
      .str();
}

/// The bucket of the table whose rows are exchanged through `full`, or of which
/// ids are; empty where it is for something else.
std::string tableOf(const ProgramMemory &memory, Value full) {
  for (const Touch &touch : memory.touches(rootOf(full).root)) {
    Operation *launch = memory.launches()[touch.step];
    if (auto lookup = dyn_cast<kernel::EmbeddingShardOp>(launch))
      return bucketOf(lookup.getShard());
    if (auto gradient = dyn_cast<kernel::EmbeddingGradShardOp>(launch))
      return bucketOf(gradient.getShard());
  }
  return {};
}

/// "gathers w.bf16, 256 bytes": what a collective moves.
std::string describe(const ProgramMemory &memory, KernelOpInterface launch) {
  Value shard = launch->getOperand(0), full = launch->getOperand(1);
  bool isGather = isa<kernel::AllGatherOp>(launch);
  if (!isGather)
    std::swap(shard, full);
  std::string text = isGather ? "gathers " : "scatters ";
  if (std::string bucket = bucketOf(shard); !bucket.empty())
    text += bucket + ", ";
  else if (std::string table = tableOf(memory, full); !table.empty())
    text += "rows of " + table + ", ";
  return text + std::to_string(kernel::toBufferType(full).bytes()) + " bytes";
}

/// One remark a collective.
void report(func::FuncOp program) {
  ProgramMemory memory(program);
  StreamOrder order = memory.order();
  ArrayRef<KernelOpInterface> launches = memory.launches();
  auto flopsOf = [&](int64_t launch) {
    return KernelOpInterface(launches[launch]).getFlops();
  };
  auto bytesOf = [&](int64_t launch) {
    return KernelOpInterface(launches[launch]).getBytes();
  };
  auto count = static_cast<int64_t>(launches.size());
  for (int64_t step = 0; step < count; ++step) {
    if (!kernel::isCollectiveLaunch(launches[step]))
      continue;
    int64_t waiting = order.doneBy(step);
    HidingWork hiding = order.hidingWork(step, flopsOf, bytesOf);
    InFlightDiagnostic remark = emitRemark(launches[step]->getLoc())
                                << "@" << program.getSymName() << " launch "
                                << step << " "
                                << describe(memory, launches[step]);
    if (waiting < count)
      remark << "; launch " << waiting << " waits for it";
    else
      remark << "; the end of the program waits for it";
    remark << "; " << hiding.launches << " launches of " << hiding.flops
           << " FLOPs and " << hiding.bytes << " bytes hide it";
  }
}

class AssignStreamsPass
    : public qwen::impl::AssignStreamsPassBase<AssignStreamsPass> {
public:
  using AssignStreamsPassBase::AssignStreamsPassBase;
  void runOnOperation() override {
    for (func::FuncOp program : programsOf(getOperation())) {
      ProgramMemory memory(program);
      for (KernelOpInterface launch : memory.launches())
        if (kernel::hasStream(launch)) {
          launch.emitOpError("has a stream already");
          return signalPassFailure();
        }
      numWaits += StreamAssigner(program).run();
      if (remarks)
        report(program);
    }
  }
};

} // namespace
