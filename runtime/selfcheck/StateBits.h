//===- StateBits.h - The bits of a model's tensors -------------*- C++ -*-===//
//
// Hashes of tensors wherever they lie, and a copy to go back to.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_SELFCHECK_STATEBITS_H
#define QWEN_RUNTIME_SELFCHECK_STATEBITS_H

#include "runtime/trainer/Engine.h"

#include <string>
#include <vector>

namespace qwen {

/// Hashes of named tensors.
struct StateBits {
  std::vector<std::pair<std::string, uint64_t>> tensors;
  int64_t bytes = 0;  ///< of the tensors
  int64_t hashed = 0; ///< of these, as copies from a device take time

  /// "4.2 GB" or "4.0 of 17.2 GB".
  std::string describe() const;
  /// The first tensor whose bits differ, or nothing.
  std::string firstDifference(const StateBits &other) const;
};

/// Bits of all gradients.
StatusOr<StateBits> gradientBits(Engine &engine);
/// Bits of parameters, masters and moments.
StatusOr<StateBits> parameterBits(Engine &engine);

/// Parameters and masters in host memory.
class SavedParameters {
public:
  /// ResourceExhausted where host memory is short.
  static StatusOr<SavedParameters> save(Engine &engine);
  /// Puts them back; moments and gradients become zeros.
  Status restore(Engine &engine) const;

private:
  std::vector<std::vector<std::byte>> tensors;
};

} // namespace qwen

#endif // QWEN_RUNTIME_SELFCHECK_STATEBITS_H
