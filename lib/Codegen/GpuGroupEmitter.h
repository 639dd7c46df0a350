//===- GpuGroupEmitter.h - Kernel of one fused group -----------*- C++ -*-===//

#ifndef QWEN_LIB_CODEGEN_GPUGROUPEMITTER_H
#define QWEN_LIB_CODEGEN_GPUGROUPEMITTER_H

#include "dialects/Kernel/Kernel.h"

namespace qwen {

/// Emits the kernel of a group function at the builder's insertion point; see
/// qwen-lower-groups-gpu in Passes.td. `alignments` has the bytes that each
/// operand's address is a multiple of. Returns the rows of a block (of which
/// each has partial column sums). Fails with an emitted error where the group
/// is not one the generator can express.
mlir::FailureOr<int64_t> emitGpuGroup(mlir::OpBuilder &builder,
                                      kernel::GroupFunctionOp group,
                                      llvm::ArrayRef<int64_t> alignments);

} // namespace qwen

#endif // QWEN_LIB_CODEGEN_GPUGROUPEMITTER_H
