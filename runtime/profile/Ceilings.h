//===- Ceilings.h - What the machine can do, measured ----------*- C++ -*-===//

#ifndef QWEN_RUNTIME_PROFILE_CEILINGS_H
#define QWEN_RUNTIME_PROFILE_CEILINGS_H

#include "qwen/Plan/Buffer.h"
#include "qwen/Support/Status.h"

#include <string>
#include <string_view>

namespace qwen {

/// The best rates that were seen on this machine.
struct Ceilings {
  double flops = 0; ///< a second, of a large matrix product
  double bytes = 0; ///< a second, read and written, of a large copy
  std::string how;  ///< one line: what was measured
};

/// Measures the machine that a plan's target names, for matrix products of
/// `dtype`; takes some tenths of a second, and memory that is given back. A GPU
/// is that of an executor's options and of a rank's number on its machine.
StatusOr<Ceilings> measureCeilings(std::string_view target, DType dtype,
                                   int device = -1, int localRank = 0);

// By kind of target. The CUDA one is FailedPrecondition in a build without it.
StatusOr<Ceilings> measureCpuCeilings(DType dtype);
StatusOr<Ceilings> measureCudaCeilings(DType dtype, int device, int localRank);

} // namespace qwen

#endif // QWEN_RUNTIME_PROFILE_CEILINGS_H
