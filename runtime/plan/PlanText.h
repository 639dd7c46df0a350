//===- PlanText.h - Facts of a plan in words -------------------*- C++ -*-===//

#ifndef QWEN_RUNTIME_PLAN_PLANTEXT_H
#define QWEN_RUNTIME_PLAN_PLANTEXT_H

#include "runtime/plan/Plan.h"

#include <string>

namespace qwen {

/// "memory: 1.2 GB (parameters …)", of a plan for several ranks "memory of each
/// rank: …". One line.
std::string describeForecast(const PlanInfo &info);

} // namespace qwen

#endif // QWEN_RUNTIME_PLAN_PLANTEXT_H
