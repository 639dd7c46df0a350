//===- PlanTotals.h - Work of the launches of a plan -----------*- C++ -*-===//

#ifndef QWEN_TOOLS_QWENPLAN_PLANTOTALS_H
#define QWEN_TOOLS_QWENPLAN_PLANTOTALS_H

#include "runtime/plan/Plan.h"

#include <string>
#include <vector>

namespace qwen {

/// An operand of a launch.
struct LaunchOperand {
  std::string name;
  uint32_t view;
  BufferType type;
  bool reads, writes;
};

/// A launch as it is printed.
struct LaunchFacts {
  std::string kernel; ///< "gemm"
  std::string symbol; ///< of the code, for groups
  std::string label;  ///< where in the model, empty where unknown
  std::vector<LaunchOperand> operands;
  int64_t flops = 0;
  bool flopsVary = false; ///< they depend on the documents
  int64_t bytes = 0;      ///< each operand once for reading, once for writing
};

/// All launches of a program.
std::vector<LaunchFacts> launchFacts(const Plan &plan, int program);

} // namespace qwen

#endif // QWEN_TOOLS_QWENPLAN_PLANTOTALS_H
