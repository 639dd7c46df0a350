//===- Passes.h - Stage import ---------------------------------*- C++ -*-===//

#ifndef QWEN_LIB_IMPORT_PASSES_H
#define QWEN_LIB_IMPORT_PASSES_H

#include "mlir/Pass/Pass.h"

namespace qwen {

#define GEN_PASS_DECL
#include "lib/Import/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "lib/Import/Passes.h.inc"

} // namespace qwen

#endif // QWEN_LIB_IMPORT_PASSES_H
