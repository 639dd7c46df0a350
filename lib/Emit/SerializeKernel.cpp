//===- SerializeKernel.cpp - A launch as a plan table ---------------------===//
//
// The functions per kernel are written by qwen-tblgen from KernelOps.td.
//
//===----------------------------------------------------------------------===//

#include "lib/Emit/SerializeKernel.h"
#include "dialects/Kernel/Kernel.h"

namespace qwen::kernel {
#include "lib/Emit/KernelToPlan.cpp.inc"
} // namespace qwen::kernel

using namespace qwen;

SerializedKernel qwen::serializeKernel(mlir::Operation *launch,
                                       flatbuffers::FlatBufferBuilder &builder,
                                       ViewIds viewId) {
#define QWEN_SERIALIZE(Name)                                                   \
  if (auto op = llvm::dyn_cast<kernel::Name##Op>(launch))                      \
    return {plan::Kernel::Name, kernel::serialize(op, builder, viewId)};
  QWEN_KERNELS(QWEN_SERIALIZE)
#undef QWEN_SERIALIZE
  llvm_unreachable("a plan.program holds launches only");
}
