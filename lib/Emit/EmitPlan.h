//===- EmitPlan.h - From plan dialect to plan file -------------*- C++ -*-===//
//
// The last stage. What it returns has been read back and accepted by the
// runtime's own verifier.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_EMIT_EMITPLAN_H
#define QWEN_LIB_EMIT_EMITPLAN_H

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace qwen {

/// What the plan records about its making.
struct EmitOptions {
  std::string compilerVersion = "unknown";
  std::string compilerFlags;
};

/// Bytes of the plan file for a module after the stage schedule. Emits an
/// error where the module is incomplete or the plan verifier refuses the
/// result.
llvm::FailureOr<std::string> emitPlan(mlir::ModuleOp module,
                                      const EmitOptions &options);

} // namespace qwen

#endif // QWEN_LIB_EMIT_EMITPLAN_H
