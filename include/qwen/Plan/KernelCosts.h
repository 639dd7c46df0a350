//===- KernelCosts.h - FLOPs and bytes of kernels --------------*- C++ -*-===//
//
// The home of each kernel's operation count and of what it moves, for the
// compiler's reports, for printing a plan and for measuring.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_PLAN_KERNELCOSTS_H
#define QWEN_PLAN_KERNELCOSTS_H

#include "qwen/Plan/Kernels.h"

#include <concepts>

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

/// Whether a launch adds to output number `output` (counted among the written
/// operands) of `outputs`. A kernel with one `accumulate` flag accumulates into
/// its last output; a group lists the outputs.
template <typename Args>
bool accumulatesInto(const Args &args, int64_t output, int64_t outputs) {
  if constexpr (requires { args.columnSums; }) {
    for (int64_t index : args.accumulate)
      if (index == output)
        return true;
    return false;
  } else if constexpr (requires {
                         { args.accumulate } -> std::convertible_to<bool>;
                       }) {
    return args.accumulate && output + 1 == outputs;
  } else {
    return false;
  }
}

/// Args::forEachOperand, where an operand that is added to is also read.
template <typename Args, typename F> void forEachAccess(Args &args, F &&f) {
  int64_t outputs = 0, output = 0;
  args.forEachOperand([&](const char *, const BufferType &, bool, bool writes) {
    outputs += writes;
  });
  args.forEachOperand(
      [&](const char *name, const BufferType &type, bool reads, bool writes) {
        bool accumulates = writes && accumulatesInto(args, output++, outputs);
        f(name, type, reads || accumulates, writes);
      });
}

// int64_t kernelBytes(const GemmArgs &) and so on: bytes that one launch moves,
// each operand once for reading and once for writing; of a table of rows by id,
// as many rows as there are ids.
#define QWEN_DECLARE_BYTES(Name) int64_t kernelBytes(const Name##Args &args);
QWEN_KERNELS(QWEN_DECLARE_BYTES)
#undef QWEN_DECLARE_BYTES

} // namespace qwen

#endif // QWEN_PLAN_KERNELCOSTS_H
