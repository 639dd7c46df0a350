//===- Kernel.h - The kernel dialect ---------------------------*- C++ -*-===//
//
// One op is one kernel call on buffers; see KernelOps.td.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_DIALECTS_KERNEL_KERNEL_H
#define QWEN_DIALECTS_KERNEL_KERNEL_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "qwen/Plan/Kernels.h"
#include "qwen/Plan/Target.h"

#include "dialects/Kernel/KernelDialect.h.inc"
#include "dialects/Kernel/KernelEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Kernel/KernelAttrs.h.inc"
#include "dialects/Kernel/KernelInterfaces.h.inc"
#define GET_OP_CLASSES
#include "dialects/Kernel/KernelOps.h.inc"

namespace qwen::kernel {

/// dtype, shape and strides of a memref value.
BufferType toBufferType(mlir::Value value);
BufferType toBufferType(mlir::MemRefType type);

// XArgs toArgs(XOp): the launch arguments of an op, without addresses.
#define QWEN_DECLARE_TO_ARGS(Name) Name##Args toArgs(Name##Op op);
QWEN_KERNELS(QWEN_DECLARE_TO_ARGS)
#undef QWEN_DECLARE_TO_ARGS

} // namespace qwen::kernel

#endif // QWEN_DIALECTS_KERNEL_KERNEL_H
