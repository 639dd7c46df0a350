//===- Passes.h - Passes of the schedule stage -----------------*- C++ -*-===//

#ifndef QWEN_LIB_SCHEDULE_PASSES_H
#define QWEN_LIB_SCHEDULE_PASSES_H

#include "dialects/Plan/Plan.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace qwen {

#define GEN_PASS_DECL
#include "lib/Schedule/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "lib/Schedule/Passes.h.inc"

} // namespace qwen

#endif // QWEN_LIB_SCHEDULE_PASSES_H
