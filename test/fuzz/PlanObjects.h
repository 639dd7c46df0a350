//===- PlanObjects.h - Mutations of a plan's objects -----------*- C++ -*-===//
//
// Whole objects come, go and change places; sizes change everywhere at once.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_FUZZ_PLANOBJECTS_H
#define QWEN_TEST_FUZZ_PLANOBJECTS_H

#include "plan_generated.h"

#include <random>

namespace qwen::fuzz {

/// Numbers that depend on libFuzzer's seed alone.
class Random {
public:
  explicit Random(unsigned seed) : engine(seed) {}
  /// In [0, limit); 0 where the limit is 0.
  uint64_t below(uint64_t limit) { return limit ? engine() % limit : 0; }
  uint64_t bits() { return engine(); }

private:
  std::mt19937_64 engine;
};

/// One change.
void mutateObjects(plan::PlanT &plan, Random &random);

/// Puts right what follows from the rest: at random the layout of buffers, and
/// always the forecast and what code says of its operands.
void repair(plan::PlanT &plan, Random &random);

} // namespace qwen::fuzz

#endif // QWEN_TEST_FUZZ_PLANOBJECTS_H
