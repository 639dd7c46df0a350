//===- AssignOffsets.cpp - Give every buffer its place --------------------===//
//
// In-place reuse, lifetimes, offsets; the results are attributes.
//
//===----------------------------------------------------------------------===//

#include "lib/Memory/Passes.h"
#include "lib/Memory/PersistentMemory.h"
#include "lib/Memory/PlaceBuffers.h"
#include "lib/Memory/ProgramMemory.h"

namespace qwen {
#define GEN_PASS_DEF_ASSIGNOFFSETSPASS
#include "lib/Memory/Passes.h.inc"
} // namespace qwen

using namespace mlir;
using namespace qwen;
using kernel::KernelOpInterface;

namespace {

/// Allocations that share memory one after the other, and their joint life.
struct Slot {
  SmallVector<memref::AllocOp> allocations;
  LiveRange range;
};

/// Plans the allocations of one program.
class ProgramPlanner {
public:
  ProgramPlanner(func::FuncOp program, bool reuse)
      : memory(program), order(memory.order()), reuse(reuse) {}

  LogicalResult makeSlots();
  /// Sets the attributes; returns the size of the arena.
  int64_t place();
  /// The most bytes that live at one launch.
  int64_t peak() const { return most; }
  int64_t numInPlace() const { return inPlace; }

private:
  LogicalResult addSlot(memref::AllocOp alloc);
  void shareInPlace(KernelOpInterface launch, int64_t step);
  bool mayTakeOver(KernelOpInterface launch, int64_t step, OpOperand &in,
                   OpOperand &out);

  ProgramMemory memory;
  StreamOrder order;
  bool reuse;
  int64_t inPlace = 0, most = 0;
  std::vector<Slot> slots;
  llvm::DenseMap<Value, size_t> slotOf; // by allocation
};

LogicalResult ProgramPlanner::addSlot(memref::AllocOp alloc) {
  ArrayRef<Touch> touches = memory.touches(alloc);
  if (touches.empty())
    return success();
  if (!alloc.getType().hasStaticShape() ||
      !alloc.getType().getLayout().isIdentity())
    return alloc.emitOpError("must be static and contiguous");
  if (!touches.front().writes || touches.front().reads)
    return memory.launches()[touches.front().step]->emitOpError().attachNote(
               alloc.getLoc())
           << "memory is read before anything is written to it";
  LiveRange range{alignBytes(reachedBytes(alloc)), touches.front().step,
                  memory.lastStep(alloc, order)};
  slotOf[alloc] = slots.size();
  slots.push_back({{alloc}, range});
  return success();
}

/// Whether `out`, a whole allocation first written by this launch, may live on
/// in the memory of `in`, a whole allocation last read by it.
bool ProgramPlanner::mayTakeOver(KernelOpInterface launch, int64_t step,
                                 OpOperand &in, OpOperand &out) {
  RootedView from = rootOf(in.get()), to = rootOf(out.get());
  auto fromSlot = slotOf.find(from.root), toSlot = slotOf.find(to.root);
  if (fromSlot == slotOf.end() || toSlot == slotOf.end() ||
      fromSlot->second == toSlot->second ||
      slots[fromSlot->second].range.last != step ||
      slots[toSlot->second].range.first != step ||
      !launch.canReuseInput(in, out))
    return false;
  auto isWhole = [](OpOperand &operand, RootedView view) {
    return view.byteOffset == 0 &&
           reachedBytes(operand.get()) == reachedBytes(view.root) &&
           kernel::toBufferType(operand.get()).isContiguous();
  };
  if (!isWhole(in, from) || !isWhole(out, to))
    return false;
  // Whatever else the launch reads or writes there must be the same element at
  // the same time: another input of the same view and no other output.
  for (OpOperand &other : launch->getOpOperands()) {
    if (&other == &in || &other == &out)
      continue;
    auto slot = slotOf.find(rootOf(other.get()).root);
    if (slot == slotOf.end() ||
        (slot->second != fromSlot->second && slot->second != toSlot->second))
      continue;
    if (other.get() != in.get() || !launch.canReuseInput(other, out))
      return false;
  }
  return true;
}

void ProgramPlanner::shareInPlace(KernelOpInterface launch, int64_t step) {
  SmallVector<OperandUse> uses = operandUses(launch);
  for (const OperandUse &out : uses)
    for (const OperandUse &in : uses) {
      if (!out.writes || in.writes ||
          !mayTakeOver(launch, step, *in.operand, *out.operand))
        continue;
      size_t from = slotOf[rootOf(in.operand->get()).root];
      size_t to = slotOf[rootOf(out.operand->get()).root];
      slots[from].range.last = slots[to].range.last;
      for (memref::AllocOp alloc : slots[to].allocations) {
        slots[from].allocations.push_back(alloc);
        slotOf[alloc] = from;
      }
      slots[to].allocations.clear();
      ++inPlace;
      break;
    }
}

LogicalResult ProgramPlanner::makeSlots() {
  for (memref::AllocOp alloc : memory.allocations())
    if (failed(addSlot(alloc)))
      return failure();
  if (reuse)
    for (auto [step, launch] : llvm::enumerate(memory.launches()))
      shareInPlace(launch, step);
  else
    for (Slot &slot : slots) {
      slot.range.first = 0;
      slot.range.last = memory.launches().size() - 1;
    }
  llvm::erase_if(slots, [](Slot &slot) { return slot.allocations.empty(); });
  return success();
}

int64_t ProgramPlanner::place() {
  SmallVector<LiveRange> ranges;
  for (Slot &slot : slots)
    ranges.push_back(slot.range);
  int64_t size = placeBuffers(ranges);
  most = peakBytes(ranges);
  for (auto [number, slot] : llvm::enumerate(slots))
    for (memref::AllocOp alloc : slot.allocations) {
      Builder builder(alloc.getContext());
      alloc->setAttr("qwen.offset",
                     builder.getI64IntegerAttr(ranges[number].offset));
      alloc->setAttr("qwen.slot", builder.getI64IntegerAttr(number));
    }
  // Allocations that no launch touches need no place.
  for (memref::AllocOp alloc : memory.allocations())
    if (memory.touches(alloc).empty()) {
      SmallVector<Operation *> dead = {alloc};
      for (size_t i = 0; i < dead.size(); ++i)
        llvm::append_range(dead, dead[i]->getUsers());
      for (Operation *op : llvm::reverse(dead))
        op->erase();
    }
  return size;
}

class AssignOffsetsPass
    : public qwen::impl::AssignOffsetsPassBase<AssignOffsetsPass> {
public:
  using AssignOffsetsPassBase::AssignOffsetsPassBase;
  void runOnOperation() override;
};

void AssignOffsetsPass::runOnOperation() {
  ModuleOp module = getOperation();
  std::optional<TargetKind> kind = targetKind(target);
  if (!kind) {
    module.emitError() << "unknown target '" << target << "'; there are "
                       << listTargets();
    return signalPassFailure();
  }
  ClassSizes sizes;
  if (failed(placeParameters(module, sizes)) ||
      failed(placePorts(module, sizes)))
    return signalPassFailure();
  int64_t &activation = sizes["activation"], &workspace = sizes["workspace"];
  int64_t peak = 0;
  for (func::FuncOp program : programsOf(module)) {
    ProgramPlanner planner(program, reuse);
    if (failed(planner.makeSlots()))
      return signalPassFailure();
    activation = std::max(activation, planner.place());
    peak = std::max(peak, planner.peak());
    numInPlace += planner.numInPlace();
    program.walk([&](KernelOpInterface launch) {
      workspace =
          std::max(workspace, alignBytes(launch.getWorkspaceBytes(*kind)));
    });
  }
  lostBytes += activation - peak;
  Builder builder(module.getContext());
  SmallVector<NamedAttribute> entries;
  for (auto &entry : sizes)
    entries.push_back(builder.getNamedAttr(
        entry.getKey(), builder.getI64IntegerAttr(entry.getValue())));
  module->setAttr("qwen.memory", builder.getDictionaryAttr(entries));
}

} // namespace
