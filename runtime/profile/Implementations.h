//===- Implementations.h - What runs a kernel on a target ------*- C++ -*-===//
//
// The home of the words for it: the table that qwenrun prints when it starts,
// so that nobody trains on another path than they think.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_PROFILE_IMPLEMENTATIONS_H
#define QWEN_RUNTIME_PROFILE_IMPLEMENTATIONS_H

#include "runtime/plan/Plan.h"

#include <string>
#include <vector>

namespace qwen {

/// The launches of one kernel in a plan.
struct KernelUse {
  std::string kernel;            ///< "gated_delta"
  std::string implementation;    ///< "wgmma and TMA, chunk 64"
  std::vector<int64_t> launches; ///< by program
  bool readsBoundaries = false;  ///< works inside documents
};

/// Every kernel of a plan, by name. Fails where one that works inside documents
/// takes their boundaries from anything but the input `cu_seqlens`.
StatusOr<std::vector<KernelUse>> kernelUses(const Plan &plan);

/// Dense bf16 TFLOP/s of the GPU that a target is for, by the vendor's data
/// sheet (H200 SXM); 0 where the target does not tell.
double peakTflops(TargetKind target);

} // namespace qwen

#endif // QWEN_RUNTIME_PROFILE_IMPLEMENTATIONS_H
