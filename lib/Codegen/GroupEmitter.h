//===- GroupEmitter.h - Loops of one fused group ---------------*- C++ -*-===//

#ifndef QWEN_LIB_CODEGEN_GROUPEMITTER_H
#define QWEN_LIB_CODEGEN_GROUPEMITTER_H

#include "dialects/Kernel/Kernel.h"

namespace qwen {

/// Emits the `func.func` of a group function at the builder's insertion point;
/// see qwen-lower-groups in Passes.td. Fails with an emitted error where the
/// group is not one the generator can express.
mlir::LogicalResult emitGroup(mlir::OpBuilder &builder,
                              kernel::GroupFunctionOp group);

} // namespace qwen

#endif // QWEN_LIB_CODEGEN_GROUPEMITTER_H
