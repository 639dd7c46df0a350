//===- KernelInterfaces.td - What every kernel op answers ---*- tablegen -*-===//

#ifndef QWEN_KERNEL_INTERFACES
#define QWEN_KERNEL_INTERFACES

include "mlir/IR/OpBase.td"

def KernelOpInterface : OpInterface<"KernelOpInterface"> {
  let cppNamespace = "::qwen::kernel";
  let description = [{
    Cost and aliasing facts that the memory planner, the plan and the reports
    read. FLOPs count a multiply-add as two.
  }];
  let methods = [
    InterfaceMethod<"Floating-point operations of one launch; 0 where the "
                    "count depends on the documents.",
                    "int64_t", "getFlops">,
    InterfaceMethod<"Bytes that one launch moves (KernelCosts.h).",
                    "int64_t", "getBytes">,
    InterfaceMethod<"Scratch bytes on a target (Workspace.h).",
                    "int64_t", "getWorkspaceBytes",
                    (ins "::qwen::TargetKind":$target)>,
    InterfaceMethod<"Bytes of the device table that a launch reads the addresses "
                    "of its tensors from; 0 on the CPU.",
                    "int64_t", "getTableBytes",
                    (ins "::qwen::TargetKind":$target)>,
    InterfaceMethod<"Why no kernel of the target runs the launch, or an empty "
                    "string.",
                    "std::string", "unsupportedReason",
                    (ins "::qwen::TargetKind":$target)>,
    InterfaceMethod<"Whether the launch adds to the operand instead of "
                    "overwriting it.",
                    "bool", "accumulatesInto", (ins "::mlir::OpOperand &":$operand)>,
    InterfaceMethod<"Whether `out` may share the buffer of `in`: each element "
                    "of `in` is read for the last time before the element of "
                    "`out` at the same address is written.",
                    "bool", "canReuseInput",
                    (ins "::mlir::OpOperand &":$in, "::mlir::OpOperand &":$out)>,
  ];
}

#endif // QWEN_KERNEL_INTERFACES
