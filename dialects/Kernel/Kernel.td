//===- Kernel.td - All ops of the kernel dialect ------------*- tablegen -*-===//

#ifndef QWEN_KERNEL
#define QWEN_KERNEL

include "dialects/Kernel/KernelOps.td"
include "dialects/Kernel/KernelStructureOps.td"

#endif // QWEN_KERNEL
