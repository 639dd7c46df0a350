//===- Passes.h - Passes of the lowering stage -----------------*- C++ -*-===//

#ifndef QWEN_LIB_LOWERING_PASSES_H
#define QWEN_LIB_LOWERING_PASSES_H

#include "dialects/Kernel/Kernel.h"
#include "dialects/Qwen/Qwen.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Pass/Pass.h"

namespace qwen {

#define GEN_PASS_DECL
#include "lib/Lowering/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "lib/Lowering/Passes.h.inc"

} // namespace qwen

#endif // QWEN_LIB_LOWERING_PASSES_H
