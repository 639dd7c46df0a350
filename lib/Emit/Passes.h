//===- Passes.h - Passes of the emit stage ---------------------*- C++ -*-===//

#ifndef QWEN_LIB_EMIT_PASSES_H
#define QWEN_LIB_EMIT_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace qwen {

#define GEN_PASS_DECL
#include "lib/Emit/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "lib/Emit/Passes.h.inc"

} // namespace qwen

#endif // QWEN_LIB_EMIT_PASSES_H
