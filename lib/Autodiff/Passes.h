//===- Passes.h - Stage autodiff --------------------------------*- C++ -*-===//
//
// From forward and loss to the programs micro_step, first_micro_step, update
// and eval; see Passes.td.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_LIB_AUTODIFF_PASSES_H
#define QWEN_LIB_AUTODIFF_PASSES_H

#include "mlir/Pass/Pass.h"

namespace qwen {

#define GEN_PASS_DECL
#include "lib/Autodiff/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "lib/Autodiff/Passes.h.inc"

} // namespace qwen

#endif // QWEN_LIB_AUTODIFF_PASSES_H
