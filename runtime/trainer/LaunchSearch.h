//===- LaunchSearch.h - The first launch that goes wrong -------*- C++ -*-===//
//
// Runs a program launch by launch and looks at everything that each of them
// writes. For the end of a run that meets NaN or infinities again and again.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_TRAINER_LAUNCHSEARCH_H
#define QWEN_RUNTIME_TRAINER_LAUNCHSEARCH_H

#include "runtime/executor/Executor.h"
#include "runtime/trainer/Engine.h"

#include <array>

namespace qwen {

/// What of a tensor is NaN or infinite.
struct NonFiniteElements {
  int64_t count = 0;
  std::array<int64_t, maxRank> first{}; ///< index of the first one
  double value = 0;                     ///< that it has
};

/// Looks at a view of a float type, contiguous or not, that lies in `memory`.
StatusOr<NonFiniteElements> countNonFinite(DeviceMemory &memory,
                                           const ConstBuffer &view);

/// Runs a program with its inputs as they stand and finds the launch that is
/// the first one to write something NaN or infinite on any rank; of several
/// ranks, the first one. To be called on all ranks, which all get the same
/// answer.
StatusOr<NonFiniteFinding> findNonFiniteLaunch(Executor &executor, int program);

} // namespace qwen

#endif // QWEN_RUNTIME_TRAINER_LAUNCHSEARCH_H
