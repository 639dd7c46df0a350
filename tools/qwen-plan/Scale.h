//===- Scale.h - qwen-plan --scale -----------------------------*- C++ -*-===//
//
// Options and tables of the forecast for other numbers of ranks.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TOOLS_QWENPLAN_SCALE_H
#define QWEN_TOOLS_QWENPLAN_SCALE_H

#include "runtime/forecast/ScaleForecast.h"

#include <string>
#include <vector>

namespace CLI {
class App;
} // namespace CLI

namespace qwen {

/// What was asked for; nothing without ranks.
struct ScaleRequest {
  std::vector<int64_t> ranks;
  ScaleAssumptions assumptions;
};

/// Adds --scale and what goes with it.
void addScaleOptions(CLI::App &app, ScaleRequest &request);

/// What the options say together.
Status checkScale(const ScaleRequest &request);

/// The forecast as text.
StatusOr<std::string> scaleText(const Plan &plan, const ScaleRequest &request);

} // namespace qwen

#endif // QWEN_TOOLS_QWENPLAN_SCALE_H
