//===- KernelChecks.h - Shape and dtype rules of kernels -------*- C++ -*-===//
//
// The home of what each kernel accepts. The kernel dialect's verifiers and the
// plan verifier call these functions with the same argument structs; launchers
// check nothing. Addresses are not looked at.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_PLAN_KERNELCHECKS_H
#define QWEN_PLAN_KERNELCHECKS_H

#include "qwen/Plan/Kernels.h"
#include "qwen/Support/Status.h"

namespace qwen {

// Status checkKernel(const GemmArgs &) and so on: OK, or InvalidArgument with
// one line that names the operand, what was expected and what was found.
#define QWEN_DECLARE_CHECK(Name) Status checkKernel(const Name##Args &args);
QWEN_KERNELS(QWEN_DECLARE_CHECK)
#undef QWEN_DECLARE_CHECK

} // namespace qwen

#endif // QWEN_PLAN_KERNELCHECKS_H
