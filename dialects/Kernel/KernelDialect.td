//===- KernelDialect.td - The kernel dialect ----------------*- tablegen -*-===//
//
// One op is one kernel call: operands are memrefs, each with a direction.
// From these definitions the tool qwen-tblgen writes the FlatBuffers tables,
// the LLVM-free argument structs and the conversions between the three.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_KERNEL_DIALECT
#define QWEN_KERNEL_DIALECT

include "mlir/IR/OpBase.td"
include "mlir/IR/BuiltinTypes.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Kernel_Dialect : Dialect {
  let name = "kernel";
  let cppNamespace = "::qwen::kernel";
  let summary = "One op is one kernel call on buffers";
  let useDefaultAttributePrinterParser = 1;
  let description = [{
    The vocabulary after the `lowering` stage. Operands are memrefs (any
    strides; the innermost dimension has stride 1), attributes are compile-time
    constants. An op names its kernel: the CPU and CUDA implementations, the
    argument struct, the plan table and the tests carry the same stem.

    The shape and dtype rules live in `include/qwen/Plan/KernelChecks.h`, the
    scratch size in `include/qwen/Plan/Workspace.h`; this dialect's verifiers
    and the plan verifier call the same functions.
  }];
}

#endif // QWEN_KERNEL_DIALECT
