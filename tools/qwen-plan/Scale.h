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

namespace qwen {

/// What was asked for; nothing without ranks.
struct ScaleRequest {
  std::vector<int64_t> ranks;
  ScaleAssumptions assumptions;
  /// An option that goes with --scale alone; empty where there is none.
  std::string option;
};

/// Lines for the usage text.
std::string scaleUsage();

/// Takes an argument "--name=value" of the forecast. False where it is another
/// one, an error where its value is not allowed.
StatusOr<bool> parseScaleOption(const std::string &argument,
                                ScaleRequest &request);

/// What the options say together.
Status checkScale(const ScaleRequest &request);

/// The forecast as text.
StatusOr<std::string> scaleText(const Plan &plan, const ScaleRequest &request);

} // namespace qwen

#endif // QWEN_TOOLS_QWENPLAN_SCALE_H
