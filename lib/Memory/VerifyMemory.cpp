//===- VerifyMemory.cpp - Check what the memory stage promises ------------===//
//
// Replays each program over the arena: who holds which bytes at which launch.
//
//===----------------------------------------------------------------------===//

#include "dialects/Kernel/KernelStreams.h"
#include "lib/Memory/Passes.h"
#include "lib/Memory/ProgramMemory.h"

#include "llvm/ADT/StringSet.h"

#include <map>

namespace qwen {
#define GEN_PASS_DEF_VERIFYMEMORYPASS
#include "lib/Memory/Passes.h.inc"
} // namespace qwen

using namespace mlir;
using namespace qwen;

namespace {

/// An allocation with its place and life.
struct Placed {
  memref::AllocOp alloc;
  int64_t slot, begin, end, first, last;
};

class VerifyMemoryPass
    : public qwen::impl::VerifyMemoryPassBase<VerifyMemoryPass> {
public:
  void runOnOperation() override;

private:
  LogicalResult verifyOps(func::FuncOp program);
  LogicalResult collect(const ProgramMemory &memory,
                        SmallVectorImpl<Placed> &placed);
  LogicalResult verifyOverlap(const ProgramMemory &memory,
                              SmallVectorImpl<Placed> &placed);
  LogicalResult verifyGradients(const ProgramMemory &memory);
  LogicalResult verifyScattered(const ProgramMemory &memory);
  int64_t arena = 0;
};

LogicalResult VerifyMemoryPass::verifyOps(func::FuncOp program) {
  for (Operation &op : program.getBody().front())
    if (!isa<kernel::KernelOpInterface, kernel::ViewOp, kernel::StorageOp,
             memref::AllocOp, func::ReturnOp>(op))
      return op.emitOpError("must not be left after the stage memory");
  for (unsigned i = 0; i < program.getNumArguments(); ++i)
    if (!program.getArgAttr(i, "qwen.offset"))
      return program.emitOpError() << "argument #" << i << " has no place";
  return success();
}

LogicalResult VerifyMemoryPass::collect(const ProgramMemory &memory,
                                        SmallVectorImpl<Placed> &placed) {
  StreamOrder order = memory.order();
  for (memref::AllocOp alloc : memory.allocations()) {
    auto offset = alloc->getAttrOfType<IntegerAttr>("qwen.offset");
    auto slot = alloc->getAttrOfType<IntegerAttr>("qwen.slot");
    ArrayRef<Touch> touches = memory.touches(alloc);
    if (!offset || !slot)
      return alloc.emitOpError("has no place");
    if (touches.empty())
      return alloc.emitOpError("has a place, but no launch touches it");
    if (!touches.front().writes || touches.front().reads)
      return alloc.emitOpError("is read before anything is written to it");
    int64_t begin = offset.getInt(), end = begin + reachedBytes(alloc);
    if (begin < 0 || begin % bufferAlignment != 0 || end > arena)
      return alloc.emitOpError()
             << "offset must be a multiple of " << bufferAlignment
             << " inside the arena of " << arena << " bytes, but is " << begin;
    placed.push_back({alloc, slot.getInt(), begin, end, touches.front().step,
                      memory.lastStep(alloc, order)});
  }
  return success();
}

LogicalResult VerifyMemoryPass::verifyOverlap(const ProgramMemory &memory,
                                              SmallVectorImpl<Placed> &placed) {
  llvm::stable_sort(placed, [](const Placed &a, const Placed &b) {
    return a.first < b.first;
  });
  std::map<int64_t, Placed> live; // by offset
  std::multimap<int64_t, int64_t> ends;
  for (Placed &now : placed) {
    while (!ends.empty() && ends.begin()->first < now.first) {
      auto old = live.find(ends.begin()->second);
      if (old != live.end() && old->second.last < now.first)
        live.erase(old);
      ends.erase(ends.begin());
    }
    auto other = live.lower_bound(now.begin);
    if (other != live.begin() && std::prev(other)->second.end > now.begin)
      --other;
    if (other != live.end() && other->second.begin < now.end) {
      const Placed &before = other->second;
      bool handedOver = before.slot == now.slot && before.begin == now.begin &&
                        before.end == now.end && before.last == now.first;
      if (!handedOver) {
        InFlightDiagnostic error = now.alloc.emitOpError()
                                   << "shares bytes with memory that is alive "
                                      "at the same launch";
        error.attachNote(before.alloc->getLoc()) << "the other allocation";
        return error;
      }
    }
    live.insert_or_assign(now.begin, now);
    ends.emplace(now.last, now.begin);
  }
  return success();
}

/// The first parameter of the gradient under a view, or nothing.
static StringRef gradientOf(Value view) {
  auto storage = rootOf(view).root.getDefiningOp<kernel::StorageOp>();
  if (!storage || storage.getRole() != kernel::StorageRole::Gradient)
    return {};
  return cast<SymbolRefAttr>(storage.getParameters()[0])
      .getRootReference()
      .getValue();
}

/// A launch that overwrites a gradient comes before all others that touch it.
LogicalResult VerifyMemoryPass::verifyGradients(const ProgramMemory &memory) {
  llvm::StringSet<> touched;
  for (kernel::KernelOpInterface launch : memory.launches())
    for (const OperandUse &use : operandUses(launch)) {
      StringRef name = gradientOf(use.operand->get());
      if (name.empty() || touched.insert(name).second || use.reads)
        continue;
      return launch.emitOpError() << "overwrites the gradient of '" << name
                                  << "', which a launch before has used";
    }
  return success();
}

/// A scatter destroys what it reads.
LogicalResult VerifyMemoryPass::verifyScattered(const ProgramMemory &memory) {
  for (size_t step = 0; step < memory.launches().size(); ++step) {
    Operation *launch = memory.launches()[step];
    auto scatter = dyn_cast<kernel::ReduceScatterOp>(launch);
    if (!scatter)
      continue;
    Value root = rootOf(scatter.getFull()).root;
    if (!root.getDefiningOp<memref::AllocOp>())
      return scatter.emitOpError("destroys what is no allocation");
    for (const Touch &touch : memory.touches(root))
      if (touch.step > static_cast<int64_t>(step))
        return memory.launches()[touch.step]->emitOpError(
            "touches memory that a scatter has destroyed");
  }
  return success();
}

void VerifyMemoryPass::runOnOperation() {
  ModuleOp module = getOperation();
  auto sizes = module->getAttrOfType<DictionaryAttr>("qwen.memory");
  auto size = sizes ? sizes.getAs<IntegerAttr>("activation") : IntegerAttr();
  if (!size) {
    module.emitError("the module has no attribute qwen.memory with the size of "
                     "each class");
    return signalPassFailure();
  }
  arena = size.getInt();
  for (func::FuncOp program : programsOf(module)) {
    SmallVector<Placed> placed;
    if (failed(verifyOps(program)))
      return signalPassFailure();
    ProgramMemory memory(program);
    if (failed(kernel::verifyStreams(memory.launches())) ||
        failed(collect(memory, placed)) ||
        failed(verifyOverlap(memory, placed)) ||
        failed(verifyGradients(memory)) || failed(verifyScattered(memory)))
      return signalPassFailure();
  }
}

} // namespace
