//===- Sustained.h - What a sustained product costs ------------*- C++ -*-===//
//
// Times and energies of products that run for so long that the card is at its
// power limit, and the choice among them. Needs no GPU.
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

/// One launch of a product under a sustained load.
struct SustainedCost {
  double milliseconds = 0;
  std::optional<double> joules; ///< where the card has a counter
  bool isFirst = false;         ///< the library's first choice
};

/// Costs that differ by less are the same: what repeated stretches differ by.
inline constexpr double sameCost = 0.005;

/// The number of the best one: of those with the shortest time, within
/// sameCost, the one with the least energy; the library's first choice where it
/// is as good in both.
size_t bestSustained(std::span<const SustainedCost> costs);

} // namespace qwen::bench

#endif // QWEN_RUNTIME_BENCHMARK_SUSTAINED_H
