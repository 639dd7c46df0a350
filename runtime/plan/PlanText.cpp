//===- PlanText.cpp - Facts of a plan in words ----------------------------===//

#include "runtime/plan/PlanText.h"

#include "runtime/support/Format.h"

using namespace qwen;

std::string qwen::describeForecast(const PlanInfo &info) {
  const PlanForecast &forecast = info.forecast;
  // A CPU needs no tables of addresses.
  std::string tables =
      forecast.tables
          ? fmt::format(", tables {}", formatBytes(double(forecast.tables)))
          : "";
  return fmt::format(
      "{}: {} (parameters {}, gradients {}, optimizer {}, activations {}, "
      "workspace {}, inputs and outputs {}, code {}{})",
      info.worldSize > 1 ? "memory of each rank" : "memory",
      formatBytes(double(forecast.total())),
      formatBytes(double(forecast.parameters)),
      formatBytes(double(forecast.gradients)),
      formatBytes(double(forecast.optimizer)),
      formatBytes(double(forecast.activations)),
      formatBytes(double(forecast.workspace)), formatBytes(double(forecast.io)),
      formatBytes(double(forecast.code)), tables);
}
