//===- StateCopy.h - The state of a model, for writing it later -*- C++ -*-===//

#ifndef QWEN_RUNTIME_CHECKPOINT_STATECOPY_H
#define QWEN_RUNTIME_CHECKPOINT_STATECOPY_H

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/support/Arena.h"

#include <optional>
#include <span>
#include <vector>

namespace qwen {

/// A copy of what a rank holds of a model, in this process's memory: it can be
/// written while training changes the model. Its memory is that of the first
/// copy, so a later one costs the copying alone.
class StateCopy {
public:
  /// Copies values, masters and moments, on all ranks or on none.
  /// ResourceExhausted, before anything is allocated, where a machine has not
  /// enough memory for the copies of all its ranks.
  Status take(std::span<const ParameterView> parameters, Communicator &ranks);

  /// The parameters as they were.
  std::span<const ParameterView> parameters() const { return views; }

private:
  Status makeRoom(int64_t bytes, Communicator &ranks);
  Status copyAll(std::span<const ParameterView> parameters);

  std::optional<Arena> memory;
  std::vector<ParameterView> views;
};

} // namespace qwen

#endif // QWEN_RUNTIME_CHECKPOINT_STATECOPY_H
