//===- Passes.h - Passes of the fusion stage -------------------*- C++ -*-===//

#ifndef QWEN_LIB_FUSION_PASSES_H
#define QWEN_LIB_FUSION_PASSES_H

#include "dialects/Qwen/Qwen.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Pass/Pass.h"

namespace qwen {

#define GEN_PASS_DECL
#include "lib/Fusion/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "lib/Fusion/Passes.h.inc"

} // namespace qwen

#endif // QWEN_LIB_FUSION_PASSES_H
