//===- Scale.cpp - Tables of qwen-plan --scale ----------------------------===//
//
// Only formats; the numbers come from ScaleForecast.
//
//===----------------------------------------------------------------------===//

#include "Scale.h"

#include "runtime/support/Json.h"

#include <algorithm>
#include <iterator>

using namespace qwen;

namespace {

using Text = std::back_insert_iterator<std::string>;

/// More than this part of a step as exposed communication is no scaling.
constexpr double mostExposed = 0.05;
/// How far is looked for it.
constexpr int64_t searchedRanks = 65536;

void printAssumptions(const Plan &plan, const ScaleAssumptions &a, Text out) {
  const DeviceRates &device = a.device;
  int64_t tokens = plan.info().tokens;
  fmt::format_to(out, "forecast by the plan's cost model; nothing of it is "
                      "measured\n");
  fmt::format_to(out,
                 "  launches     FLOPs at {:.3g} % of {:.5g} TFLOP/s, or bytes "
                 "at {:.3g} % "
                 "of {:.5g} GB/s where that takes longer\n",
                 device.flopsEfficiency * 100, device.peakFlops * 1e-12,
                 device.bytesEfficiency * 100, device.memoryBandwidth * 1e-9);
  if (a.measuredSeconds > 0)
    fmt::format_to(out,
                   "               by one factor such that one rank takes "
                   "{:.6g} ms\n",
                   a.measuredSeconds * 1e3);
  fmt::format_to(out,
                 "  collectives  rings at {:.3g} % of {:.5g} GB/s in a node of "
                 "{} GPUs, {:.3g} % of {:.5g} GB/s a GPU between nodes\n",
                 a.cluster.linkEfficiency * 100, a.cluster.linkBandwidth * 1e-9,
                 a.cluster.nodeSize, a.cluster.networkEfficiency * 100,
                 a.cluster.networkBandwidth * 1e-9);
  fmt::format_to(out,
                 "  a step       of a rank: {} micro-batch{} of {} tokens in "
                 "documents of {}, and the update\n",
                 a.microBatches, a.microBatches == 1 ? "" : "es", tokens,
                 a.documentTokens ? a.documentTokens : tokens);
}

void printSizes(const std::vector<StepForecast> &steps, double oneGpu,
                Text out) {
  fmt::format_to(out,
                 "\n{:>6} {:>10} {:>10} {:>9} {:>10} {:>10} {:>8} {:>9} "
                 "{:>9} {:>8}\n",
                 "ranks", "ms a step", "compute ms", "gather ms", "scatter ms",
                 "exposed ms", "of step", "tokens/s", "of 1 rank", "GB");
  for (const StepForecast &step : steps)
    fmt::format_to(out,
                   "{:>6} {:>10.1f} {:>10.1f} {:>9.1f} {:>10.1f} {:>10.2f} "
                   "{:>6.2f} % {:>9.0f} {:>7.1f} % {:>8.4g}\n",
                   step.ranks, step.seconds * 1e3, step.compute * 1e3,
                   step.gatherSeconds * 1e3, step.scatterSeconds * 1e3,
                   step.exposed * 1e3, step.exposedPart() * 100,
                   step.tokensPerSecond, step.tokensPerSecond / oneGpu * 100,
                   step.memoryBytes * 1e-9);
  fmt::format_to(out,
                 "  tokens/s and GB of a rank; one rank updates all parameters "
                 "alone; gathers and scatters run beside the launches but for "
                 "what is exposed\n");
}

/// Units of one size, of which one stands for all.
struct UnitKind {
  UnitForecast first;
  int64_t count = 0;
  double exposed = 0;
};

std::vector<UnitKind> unitKinds(const StepForecast &step) {
  std::vector<UnitKind> kinds;
  for (const UnitForecast &unit : step.units) {
    auto kind = std::find_if(kinds.begin(), kinds.end(), [&](UnitKind &each) {
      return each.first.gathered == unit.gathered &&
             each.first.scattered == unit.scattered;
    });
    if (kind == kinds.end())
      kind = kinds.insert(kinds.end(), {unit});
    ++kind->count;
    kind->exposed += unit.exposedSeconds;
  }
  return kinds;
}

void printUnits(const StepForecast &step, Text out) {
  fmt::format_to(out, "\nunits on {} ranks, a step\n", step.ranks);
  fmt::format_to(out, "  {:<44} {:>5} {:>11} {:>9} {:>12} {:>10} {:>14}\n",
                 "unit, or the first of its size", "units", "gathered MB",
                 "gather ms", "scattered MB", "scatter ms", "all exposed ms");
  for (const UnitKind &kind : unitKinds(step))
    fmt::format_to(out,
                   "  {:<44} {:>5} {:>11.1f} {:>9.2f} {:>12.1f} {:>10.2f} "
                   "{:>14.2f}\n",
                   printable(kind.first.name), kind.count,
                   kind.first.gathered * 1e-6, kind.first.gatherSeconds * 1e3,
                   kind.first.scattered * 1e-6, kind.first.scatterSeconds * 1e3,
                   kind.exposed * 1e3);
}

void printLimit(const ScaleForecast &forecast, int64_t nodeSize, Text out) {
  int64_t limit =
      findScalingLimit(forecast, nodeSize, mostExposed, searchedRanks);
  if (limit == 0) {
    fmt::format_to(out,
                   "\nplain FSDP scales to {} ranks and more: {:.1f} % of a "
                   "step is exposed communication there\n",
                   searchedRanks,
                   forecast.step(searchedRanks).exposedPart() * 100);
    return;
  }
  StepForecast plain = forecast.step(limit);
  fmt::format_to(out,
                 "\nplain FSDP stops scaling at {} ranks: from there on more "
                 "than {:.0f} % of a step is exposed communication ({:.1f} % "
                 "there, {:.0f} tokens/s a rank)",
                 limit, mostExposed * 100, plain.exposedPart() * 100,
                 plain.tokensPerSecond);
  if (limit <= nodeSize) {
    fmt::format_to(out, "\n");
    return;
  }
  StepForecast hybrid = forecast.step(limit, nodeSize);
  fmt::format_to(out,
                 "; next is hybrid sharding, in nodes of {} with sums across "
                 "{}: {:.1f} % exposed, {:.0f} tokens/s, {:.1f} GB a rank\n",
                 nodeSize, limit / nodeSize, hybrid.exposedPart() * 100,
                 hybrid.tokensPerSecond, hybrid.memoryBytes * 1e-9);
}

} // namespace

StatusOr<std::string> qwen::scaleText(const Plan &plan,
                                      const ScaleRequest &request) {
  QWEN_ASSIGN_OR_RETURN(ScaleForecast forecast,
                        ScaleForecast::create(plan, request.assumptions));
  StepForecast oneRank = forecast.step(1);
  std::vector<StepForecast> steps;
  for (int64_t ranks : request.ranks)
    steps.push_back(forecast.step(ranks));
  std::string text;
  Text out(text);
  printAssumptions(plan, request.assumptions, out);
  std::vector<StepForecast> rows = steps;
  rows.insert(rows.begin(), oneRank);
  printSizes(rows, oneRank.tokensPerSecond, out);
  for (const StepForecast &step : steps)
    printUnits(step, out);
  printLimit(forecast, request.assumptions.cluster.nodeSize, out);
  return text;
}
