//===- CodeTable.h - Generated kernels of a plan ---------------*- C++ -*-===//
//
// The table of a plan's generated code, checked against the machine code, and
// what a launch must agree with. A call that passes reads and writes inside its
// operands, whoever made the plan.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_PLAN_CODETABLE_H
#define QWEN_RUNTIME_PLAN_CODETABLE_H

#include "qwen/Plan/Kernels.h"
#include "qwen/Plan/plan_generated.h"
#include "qwen/Support/Status.h"

#include <map>
#include <span>
#include <string_view>

namespace qwen {

/// Limits of every GPU that a plan can be for.
inline constexpr uint32_t maxBlockThreads = 1024;
inline constexpr uint32_t maxGridBlocks = 0x7fffffff;
/// Shared memory that a kernel may have without asking for more.
inline constexpr uint32_t maxStaticSharedBytes = 48 * 1024;

class CodeTable {
public:
  /// Empty for a plan without code. DataLoss where the code is no object of the
  /// plan's target, lacks a function, or a symbol is out of bounds.
  static StatusOr<CodeTable> create(const plan::Plan &plan);

  /// Whether the launch agrees with the kernel it names. `offsets` has the byte
  /// at which each operand lies, inputs first, from a place that every
  /// alignment divides.
  Status checkCall(const GroupArgs &args,
                   std::span<const int64_t> offsets) const;

  /// Null where there is none.
  const plan::CodeSymbol *find(std::string_view name) const;

private:
  std::map<std::string_view, const plan::CodeSymbol *> symbols;
};

} // namespace qwen

#endif // QWEN_RUNTIME_PLAN_CODETABLE_H
