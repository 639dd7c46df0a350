//===- OperatorRules.h - What is expected of a kernel's results -*- C++ -*-===//

#ifndef QWEN_RUNTIME_SELFCHECK_OPERATORRULES_H
#define QWEN_RUNTIME_SELFCHECK_OPERATORRULES_H

#include "qwen/Plan/Kernels.h"
#include "runtime/selfcheck/Agreement.h"
#include "runtime/selfcheck/KernelCase.h"
#include "runtime/selfcheck/KernelRunner.h"

#include <string>
#include <vector>

namespace qwen {

/// A result of a kernel and how it is compared.
struct OutputRule {
  const char *name;
  AgreementRule rule;
};

/// What results are compared with.
enum class ComparedWith {
  Exact,   ///< exact results for the same operands
  CpuTwin, ///< the CPU's kernel in the same types; the results are a GPU's
};

// std::vector<OutputRule> outputRules(const GatedDeltaArgs &, …) and so on:
// every result of the kernel, in the order of its operands.
//
// std::string describeSizes(const GatedDeltaArgs &) and so on: "heads 16/48 of
// 128".
#define QWEN_DECLARE_RULES(Name)                                               \
  std::vector<OutputRule> outputRules(                                         \
      const Name##Args &args, const CheckPack &pack, ComparedWith with);       \
  std::string describeSizes(const Name##Args &args);
QWEN_CHECKED_KERNELS(QWEN_DECLARE_RULES)
#undef QWEN_DECLARE_RULES

} // namespace qwen

#endif // QWEN_RUNTIME_SELFCHECK_OPERATORRULES_H
