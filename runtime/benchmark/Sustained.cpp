//===- Sustained.cpp - What a sustained product costs ---------------------===//

#include "runtime/benchmark/Sustained.h"

#include <algorithm>
#include <cmath>

using namespace qwen;
using namespace qwen::bench;

void EnergyLog::add(double seconds, double joules) {
  if (readings.empty() || joules > readings.back().joules)
    readings.push_back({seconds, joules});
}

/// The counter on the line through the two readings around the moment, or the
/// nearest two. Not the first reading, which did not see the counter advance.
double EnergyLog::at(double seconds) const {
  auto after = std::lower_bound(
      readings.begin() + 2, readings.end() - 1, seconds,
      [](const Reading &r, double moment) { return r.seconds < moment; });
  const Reading &to = *after, &from = *(after - 1);
  return from.joules + (to.joules - from.joules) * (seconds - from.seconds) /
                           (to.seconds - from.seconds);
}

std::optional<double> EnergyLog::between(double from, double to) const {
  if (readings.size() < 3)
    return std::nullopt;
  return at(to) - at(from);
}

size_t bench::bestSustained(std::span<const SustainedCost> costs) {
  double shortest = HUGE_VAL;
  bool knowsEnergy = true;
  for (const SustainedCost &cost : costs) {
    shortest = std::min(shortest, cost.milliseconds);
    knowsEnergy = knowsEnergy && cost.joules;
  }
  // What is left to compare of those that take as long as the shortest.
  auto rest = [&](const SustainedCost &cost) {
    return knowsEnergy ? *cost.joules : cost.milliseconds;
  };
  size_t best = costs.size(), first = costs.size();
  for (size_t i = 0; i < costs.size(); ++i) {
    if (costs[i].milliseconds > shortest * (1 + sameCost))
      continue;
    if (best == costs.size() || rest(costs[i]) < rest(costs[best]))
      best = i;
    if (costs[i].isFirst)
      first = i;
  }
  bool firstIsAsGood = first < costs.size() &&
                       rest(costs[first]) <= rest(costs[best]) * (1 + sameCost);
  return firstIsAsGood ? first : best;
}
