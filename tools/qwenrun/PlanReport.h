//===- PlanReport.h - What qwenrun says of a plan --------------*- C++ -*-===//

#ifndef QWEN_TOOLS_QWENRUN_PLANREPORT_H
#define QWEN_TOOLS_QWENRUN_PLANREPORT_H

#include "runtime/executor/Executor.h"
#include "runtime/plan/Plan.h"
#include "runtime/trainer/Engine.h"

#include <string>

namespace qwen {

/// Everything about a plan, for --info. Several lines.
std::string describePlan(const Plan &plan, const std::string &path);

/// What runs each kernel, its launches by program, and for the kernels that
/// work inside documents the input that they take the boundaries from. Fails as
/// kernelUses does.
StatusOr<std::string> kernelTable(const Plan &plan);

/// What runs the plan; of a GPU also its memory, and the kernels and driver
/// calls of each program. One line or two.
std::string describeDevice(const Executor &executor);

/// Which tensors decay, by name with layer numbers folded. Two lines.
std::string describeDecay(Engine &engine, double weightDecay);

/// What was loaded, cast and carried, and the means of the norm weights, which
/// show whether (1 + w) norms and plain ones were mixed up.
StatusOr<std::string> describeLoad(Engine &engine, const LoadReport &report,
                                   const std::string &from);

} // namespace qwen

#endif // QWEN_TOOLS_QWENRUN_PLANREPORT_H
