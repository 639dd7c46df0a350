//===- GroupCases.h - Generated kernels of a plan, alone -------*- C++ -*-===//
//
// Finds the distinct generated kernels of a plan and gives each operands of its
// own, outside of the plan's memory.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TOOLS_QWEN_BENCH_GROUPCASES_H
#define QWEN_TOOLS_QWEN_BENCH_GROUPCASES_H

#include "runtime/benchmark/KernelTiming.h"
#include "runtime/plan/Plan.h"

#include <vector>

namespace qwen::bench {

/// A generated kernel as a step of the plan calls it, without addresses.
struct GroupCase {
  GroupArgs args;
  int64_t calls = 0; ///< steps of all programs that call the kernel
  /// Pairs of an input and an output that share a buffer in some step.
  std::vector<std::pair<size_t, size_t>> inPlace;

  /// Bytes that a launch must move: each input read and each output written
  /// once, accumulated ones read too.
  double bytes() const;
};

/// The kernels in the order of their first calls.
StatusOr<std::vector<GroupCase>> collectGroups(const Plan &plan);

/// Device memory for the operands of one launch.
class GroupMemory {
public:
  /// Inputs and accumulated outputs get random numbers: bf16 of [-1, 1), f32 of
  /// [0.5, 1.5), as sums of squares are positive. Other outputs are NaN. With
  /// `inPlace` an output that may share an input's buffer does.
  static StatusOr<GroupMemory> create(const GroupCase &group, bool inPlace);

  /// Memory of the same contents.
  StatusOr<GroupMemory> clone() const;

  /// The arguments with addresses in this memory.
  const GroupArgs &arguments() const { return args; }
  /// Copies of all operands, inputs first.
  StatusOr<std::vector<std::vector<std::byte>>> read() const;
  /// Puts such copies back.
  Status write(const std::vector<std::vector<std::byte>> &contents) const;

private:
  GroupArgs args;
  std::vector<DeviceArray> arrays; ///< empty ones for outputs in place
  std::vector<size_t> arrayOf;     ///< of each operand
};

} // namespace qwen::bench

#endif // QWEN_TOOLS_QWEN_BENCH_GROUPCASES_H
