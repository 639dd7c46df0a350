//===- StreamSimulation.cpp - When the steps of streams run ---------------===//

#include "runtime/forecast/StreamSimulation.h"

#include <algorithm>
#include <cassert>

using namespace qwen;

namespace {
struct Interval {
  double begin = 0, end = 0;
  double overlap(const Interval &other) const {
    return std::max(0.0,
                    std::min(end, other.end) - std::max(begin, other.begin));
  }
};
} // namespace

/// When each step runs.
static std::vector<Interval> runSteps(std::span<const TimedStep> steps) {
  std::vector<Interval> times;
  std::vector<double> streamEnds;
  times.reserve(steps.size());
  for (const TimedStep &step : steps) {
    if (step.stream >= int(streamEnds.size()))
      streamEnds.resize(step.stream + 1);
    double begin = streamEnds[step.stream];
    for (uint32_t wait : step.waits) {
      assert(wait < times.size() && "a step waits for earlier ones");
      begin = std::max(begin, times[wait].end);
    }
    times.push_back({begin, begin + step.seconds});
    streamEnds[step.stream] = times.back().end;
  }
  return times;
}

StreamTimes qwen::simulateStreams(std::span<const TimedStep> steps) {
  std::vector<Interval> times = runSteps(steps);
  StreamTimes result;
  result.exposed.resize(steps.size());
  std::vector<Interval> idle; // of stream 0
  double worked = 0;          // its end so far
  for (size_t i = 0; i < steps.size(); ++i) {
    result.seconds = std::max(result.seconds, times[i].end);
    if (steps[i].stream != 0)
      continue;
    if (times[i].begin > worked)
      idle.push_back({worked, times[i].begin});
    worked = times[i].end;
    result.compute += steps[i].seconds;
  }
  if (result.seconds > worked)
    idle.push_back({worked, result.seconds});
  // A stream's steps follow each other, so that the gaps before one are not
  // those of a later one.
  std::vector<size_t> next;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].stream == 0)
      continue;
    if (steps[i].stream >= int(next.size()))
      next.resize(steps[i].stream + 1);
    size_t &gap = next[steps[i].stream];
    while (gap < idle.size() && idle[gap].end <= times[i].begin)
      ++gap;
    for (size_t g = gap; g < idle.size() && idle[g].begin < times[i].end; ++g)
      result.exposed[i] += times[i].overlap(idle[g]);
  }
  return result;
}
