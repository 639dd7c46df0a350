//===- KernelCosts.h - FLOPs of kernels ------------------------*- C++ -*-===//
//
// The home of each kernel's operation count, for the compiler's reports and for
// printing a plan.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_PLAN_KERNELCOSTS_H
#define QWEN_PLAN_KERNELCOSTS_H

#include "qwen/Plan/Kernels.h"

namespace qwen {

// int64_t kernelFlops(const GemmArgs &) and so on: floating-point operations of
// one launch; 0 where the count depends on the documents.
#define QWEN_DECLARE_FLOPS(Name) int64_t kernelFlops(const Name##Args &args);
QWEN_KERNELS(QWEN_DECLARE_FLOPS)
#undef QWEN_DECLARE_FLOPS

/// Floating-point operations for each pair of a token and one at or before it
/// in its document, to be added to kernelFlops.
double kernelFlopsPerPair(const AttentionArgs &args);
double kernelFlopsPerPair(const AttentionGradArgs &args);
template <typename Args> double kernelFlopsPerPair(const Args &) { return 0; }

} // namespace qwen

#endif // QWEN_PLAN_KERNELCOSTS_H
