//===- GroupReference.h - Generated kernels on the CPU ---------*- C++ -*-===//

#ifndef QWEN_TOOLS_QWEN_BENCH_GROUPREFERENCE_H
#define QWEN_TOOLS_QWEN_BENCH_GROUPREFERENCE_H

#include "GroupCases.h"

#include "runtime/executor/CodeImage.h"

#include <memory>

namespace qwen::bench {

/// The generated kernels of a plan for the CPU, called one by one.
class GroupReference {
public:
  static StatusOr<std::unique_ptr<GroupReference>>
  create(const std::string &path);

  /// Runs the kernel of the same name on `before` (all operands, inputs first)
  /// and compares its outputs with those of `after`. Returns the largest error
  /// as a part of its bound. FailedPrecondition where the plan has no such
  /// kernel over such operands.
  ///
  /// The bound of an element that depends on its row: both sides round sums of
  /// a row's length, relative to the row's largest element, and the result to
  /// its type. Of a column sum: sums of as many terms as there are rows,
  /// relative to the largest of all columns.
  StatusOr<double> compare(const GroupCase &group,
                           std::vector<std::vector<std::byte>> before,
                           const std::vector<std::vector<std::byte>> &after);

private:
  explicit GroupReference(Plan plan) : plan(std::move(plan)) {}
  Status run(const GroupCase &group,
             std::vector<std::vector<std::byte>> &operands) const;

  Plan plan;
  std::vector<GroupCase> groups;
  CodeImage code;
};

} // namespace qwen::bench

#endif // QWEN_TOOLS_QWEN_BENCH_GROUPREFERENCE_H
