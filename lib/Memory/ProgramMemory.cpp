//===- ProgramMemory.cpp - Who touches which memory when ------------------===//
//
// Reads directions from the memory effects that KernelOps.td declares.
//
//===----------------------------------------------------------------------===//

#include "lib/Memory/ProgramMemory.h"
#include "dialects/Kernel/KernelStreams.h"
#include "qwen/Plan/Scratch.h"

using namespace mlir;
using namespace qwen;

RootedView qwen::rootOf(Value view) {
  int64_t offset = 0;
  while (auto op = view.getDefiningOp<kernel::ViewOp>()) {
    auto type = cast<MemRefType>(view.getType());
    offset += static_cast<int64_t>(op.getOffset()) *
              (type.getElementTypeBitWidth() / 8);
    view = op.getSource();
  }
  return {view, offset};
}

int64_t qwen::reachedBytes(Value value) {
  BufferType type = kernel::toBufferType(value);
  return type.extent() * dtypeBytes(type.dtype);
}

int64_t qwen::alignBytes(int64_t bytes) {
  return roundUp(bytes, bufferAlignment);
}

SmallVector<OperandUse> qwen::operandUses(kernel::KernelOpInterface launch) {
  SmallVector<OperandUse> uses;
  for (OpOperand &operand : launch->getOpOperands())
    uses.push_back({&operand, launch.accumulatesInto(operand), false});
  SmallVector<MemoryEffects::EffectInstance> effects;
  cast<MemoryEffectOpInterface>(launch.getOperation()).getEffects(effects);
  for (const MemoryEffects::EffectInstance &effect : effects) {
    auto *operand = effect.getEffectValue<OpOperand *>();
    if (!operand)
      continue;
    OperandUse &use = uses[operand->getOperandNumber()];
    use.reads |= isa<MemoryEffects::Read>(effect.getEffect());
    use.writes |= isa<MemoryEffects::Write>(effect.getEffect());
  }
  return uses;
}

SmallVector<func::FuncOp> qwen::programsOf(ModuleOp module) {
  SmallVector<func::FuncOp> programs;
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr("qwen.program"))
      programs.push_back(function);
  return programs;
}

ProgramMemory::ProgramMemory(func::FuncOp program) {
  for (Operation &op : program.getBody().front()) {
    if (auto alloc = dyn_cast<memref::AllocOp>(op))
      allocs.push_back(alloc);
    auto launch = dyn_cast<kernel::KernelOpInterface>(op);
    if (!launch)
      continue;
    int64_t step = steps.size();
    steps.push_back(launch);
    for (const OperandUse &use : operandUses(launch)) {
      auto &list = byRoot[rootOf(use.operand->get()).root];
      if (list.empty() || list.back().step != step)
        list.push_back({step, use.reads, use.writes});
      list.back().reads |= use.reads;
      list.back().writes |= use.writes;
    }
  }
}

StreamOrder ProgramMemory::order() const {
  std::vector<StreamLaunch> launches;
  for (kernel::KernelOpInterface launch : steps)
    launches.push_back(
        {kernel::streamOf(launch), kernel::waitsOf(launch).vec()});
  return StreamOrder(launches);
}

ArrayRef<Touch> ProgramMemory::touches(Value root) const {
  auto found = byRoot.find(root);
  if (found == byRoot.end())
    return {};
  return found->second;
}

int64_t ProgramMemory::lastStep(Value root, const StreamOrder &order) const {
  int64_t last = 0;
  for (const Touch &touch : touches(root))
    last = std::max(last, order.doneBy(touch.step));
  return std::min(last, static_cast<int64_t>(steps.size()) - 1);
}
