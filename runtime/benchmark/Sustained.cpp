//===- Sustained.cpp - What a sustained product costs ---------------------===//

#include "runtime/benchmark/Sustained.h"

#include <algorithm>

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

size_t bench::bestSustained(std::span<const SustainedTime> times) {
  auto shortest =
      std::min_element(times.begin(), times.end(),
                       [](const SustainedTime &x, const SustainedTime &y) {
                         return x.milliseconds < y.milliseconds;
                       });
  auto first = std::find_if(times.begin(), times.end(), [&](const auto &time) {
    return time.isFirst &&
           time.milliseconds <= shortest->milliseconds * (1 + sameTime);
  });
  return size_t((first == times.end() ? shortest : first) - times.begin());
}
