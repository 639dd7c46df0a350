//===- Sustained.h - What a sustained product costs ------------*- C++ -*-===//
//
// Energy, and the choice among algorithms that ran for so long that the card
// was at its power limit. Needs no GPU.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_BENCHMARK_SUSTAINED_H
#define QWEN_RUNTIME_BENCHMARK_SUSTAINED_H

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace qwen::bench {

/// A counter of energy that advances in steps: what was read, as a line through
/// the moments at which it had advanced.
class EnergyLog {
public:
  /// One reading. Readings come in the order of time.
  void add(double seconds, double joules);
  /// Joules used from one moment to a later one. Nothing before the counter
  /// advanced twice.
  std::optional<double> between(double from, double to) const;

private:
  struct Reading {
    double seconds, joules;
  };
  double at(double seconds) const;
  std::vector<Reading> readings; ///< the first one, then each that is higher
};

/// A launch of an algorithm under a sustained load.
struct SustainedTime {
  double milliseconds = 0;
  bool isFirst = false; ///< the library's first choice
};

/// Times that differ by less are the same: most repeated stretches of 0.1 s
/// differ by up to 1.7 %, and a time is the mean of two.
inline constexpr double sameTime = 0.015;

/// The number of the best one: the shortest time, or the library's first choice
/// where that takes as long.
///
/// Energies do not decide. At the power limit all algorithms take the same
/// power, so that the energy of a launch is its time once more, with the error
/// of the counter added.
size_t bestSustained(std::span<const SustainedTime> times);

} // namespace qwen::bench

#endif // QWEN_RUNTIME_BENCHMARK_SUSTAINED_H
