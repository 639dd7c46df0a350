//===- Passes.h - Passes of the memory stage -------------------*- C++ -*-===//

#ifndef QWEN_LIB_MEMORY_PASSES_H
#define QWEN_LIB_MEMORY_PASSES_H

#include "dialects/Kernel/Kernel.h"
#include "dialects/Qwen/Qwen.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Pass/Pass.h"

namespace qwen {

#define GEN_PASS_DECL
#include "lib/Memory/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "lib/Memory/Passes.h.inc"

} // namespace qwen

#endif // QWEN_LIB_MEMORY_PASSES_H
