//===- Passes.h - Code generation for fused groups -------------*- C++ -*-===//

#ifndef QWEN_LIB_CODEGEN_PASSES_H
#define QWEN_LIB_CODEGEN_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace qwen {

#define GEN_PASS_DECL
#include "lib/Codegen/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "lib/Codegen/Passes.h.inc"

/// Registers the translations and conversions that qwen-compile-groups needs.
void registerCodegenDialects(mlir::DialectRegistry &registry);

} // namespace qwen

#endif // QWEN_LIB_CODEGEN_PASSES_H
