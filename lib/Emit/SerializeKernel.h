//===- SerializeKernel.h - A launch as a plan table ------------*- C++ -*-===//

#ifndef QWEN_LIB_EMIT_SERIALIZEKERNEL_H
#define QWEN_LIB_EMIT_SERIALIZEKERNEL_H

#include "qwen/Plan/plan_generated.h"

#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace qwen {

/// Gives the plan's number of a view.
using ViewIds = llvm::function_ref<uint32_t(mlir::Value)>;

/// The union member of a launch and its table.
struct SerializedKernel {
  plan::Kernel type;
  flatbuffers::Offset<void> table;
};

/// Writes the kernel table of a launch.
SerializedKernel serializeKernel(mlir::Operation *launch,
                                 flatbuffers::FlatBufferBuilder &builder,
                                 ViewIds viewId);

} // namespace qwen

#endif // QWEN_LIB_EMIT_SERIALIZEKERNEL_H
