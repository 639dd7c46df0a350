//===- Agreement.h - How well two results agree ----------------*- C++ -*-===//

#ifndef QWEN_RUNTIME_SELFCHECK_AGREEMENT_H
#define QWEN_RUNTIME_SELFCHECK_AGREEMENT_H

#include "runtime/selfcheck/HostTensor.h"

namespace qwen {

/// How results are compared, with the bound.
struct AgreementRule {
  enum class Kind {
    /// Each element, to sums of this relative error and the rounding to
    /// storage.
    Elements,
    /// Relative error in the root mean square sense; no element further off
    /// than largestDeviation times the bound, relative to the largest one.
    MeanSquare,
  };
  Kind kind = Kind::Elements;
  double bound = 0;
  /// Least magnitude of what is summed, where sums cancel.
  double terms = 0;
  /// Both sides have the error of the bound, not one alone.
  bool bothSides = false;
};

/// The worst of several comparisons.
struct Agreement {
  double bound = 0;
  double found = 0; ///< infinite where something was not a number
  bool passed() const { return found <= bound; }
  /// Takes the other one where it is nearer to its bound, or further over it.
  void merge(const Agreement &other);
};

/// Compares two tensors of one shape. Rows of the outermost dimension from
/// `rows` on must be zeros in `result`.
Agreement compare(const HostTensor &result, const HostTensor &reference,
                  int64_t rows, const AgreementRule &rule);

} // namespace qwen

#endif // QWEN_RUNTIME_SELFCHECK_AGREEMENT_H
