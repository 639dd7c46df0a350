//===- PrintPlan.h - A plan as text ----------------------------*- C++ -*-===//
//
// The three views of a plan: summary (text or JSON), memory map, launch lists.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TOOLS_QWENPLAN_PRINTPLAN_H
#define QWEN_TOOLS_QWENPLAN_PRINTPLAN_H

#include "runtime/plan/Plan.h"

#include <string>

namespace qwen {

/// What made the plan, for which machine and model, and what memory it needs.
std::string summaryText(const Plan &plan);

/// The same as one JSON object.
std::string summaryJson(const Plan &plan);

/// Arenas, parameters, inputs and outputs, and buffers.
std::string memoryMap(const Plan &plan);

/// The launches of a program: kernel, operands, FLOPs, bytes, stream, waits;
/// then its collectives, with what hides each.
std::string launchList(const Plan &plan, int program);

} // namespace qwen

#endif // QWEN_TOOLS_QWENPLAN_PRINTPLAN_H
