//===- Passes.h - Stage sharding --------------------------------*- C++ -*-===//
//
// From programs of one rank to programs of any of several ranks; see Passes.td.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_SHARDING_PASSES_H
#define QWEN_LIB_SHARDING_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace qwen {

#define GEN_PASS_DECL
#include "lib/Sharding/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "lib/Sharding/Passes.h.inc"

} // namespace qwen

#endif // QWEN_LIB_SHARDING_PASSES_H
