//===- Agreement.cpp - How well two results agree -------------------------===//

#include "runtime/selfcheck/Agreement.h"

#include "qwen/Support/Tolerance.h"

#include <algorithm>
#include <limits>

using namespace qwen;

static constexpr double infinite = std::numeric_limits<double>::infinity();

void Agreement::merge(const Agreement &other) {
  // A comparison that found no difference counts as well.
  if (bound == 0 || other.found * bound > found * other.bound ||
      other.found == infinite)
    *this = other;
}

static Agreement compareElements(const HostTensor &result,
                                 const HostTensor &reference, int64_t count,
                                 const AgreementRule &rule) {
  DType stored = result.type().dtype;
  double sides = rule.bothSides ? 2 : 1, magnitude = rule.terms, worst = 0;
  for (int64_t i = 0; i < count; ++i)
    magnitude = std::max(magnitude, std::fabs(reference.get(i)));
  for (int64_t i = 0; i < count; ++i) {
    double exact = reference.get(i);
    double allowed =
        sides * resultTolerance(stored, rule.bound, magnitude, exact);
    double error = std::fabs(result.get(i) - exact);
    if (std::isnan(error) || (allowed == 0 && error > 0))
      worst = infinite;
    else if (error > 0)
      worst = std::max(worst, error / allowed);
  }
  double bound = sides * (rule.bound + unitRoundoff(stored));
  return {bound, worst * bound};
}

static Agreement compareMeanSquare(const HostTensor &result,
                                   const HostTensor &reference, int64_t count,
                                   const AgreementRule &rule) {
  double squares = 0, errors = 0, largest = 0, furthest = 0;
  for (int64_t i = 0; i < count; ++i) {
    double exact = reference.get(i), error = std::fabs(result.get(i) - exact);
    if (std::isnan(error))
      return {rule.bound, infinite};
    squares += exact * exact;
    errors += error * error;
    largest = std::max(largest, std::fabs(exact));
    furthest = std::max(furthest, error);
  }
  if (errors == 0)
    return {rule.bound, 0};
  if (squares == 0)
    return {rule.bound, infinite};
  return {rule.bound, std::max(std::sqrt(errors / squares),
                               furthest / largest / largestDeviation)};
}

Agreement qwen::compare(const HostTensor &result, const HostTensor &reference,
                        int64_t rows, const AgreementRule &rule) {
  int64_t all = result.type().rank > 0 ? result.type().dim(0) : 1;
  int64_t count = all > 0 ? result.size() / all * std::min(rows, all) : 0;
  Agreement agreement = rule.kind == AgreementRule::Kind::Elements
                            ? compareElements(result, reference, count, rule)
                            : compareMeanSquare(result, reference, count, rule);
  for (int64_t i = count; i < result.size(); ++i)
    if (result.get(i) != 0)
      agreement.found = infinite;
  return agreement;
}
