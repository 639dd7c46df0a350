//===- SustainedTest.cpp - The choice among sustained products ------------===//

#include "runtime/benchmark/Sustained.h"

#include <gtest/gtest.h>

using namespace qwen::bench;

static size_t best(std::vector<SustainedTime> times) {
  return bestSustained(times);
}

TEST(BestSustainedTest, TheShortestTime) {
  EXPECT_EQ(best({{4.8, true}, {4.5}, {4.6}}), 1u);
  EXPECT_EQ(best({{4.8}, {4.6}, {4.5}}), 2u) << "the first choice was refused";
  EXPECT_EQ(best({{4.5, true}, {4.8}}), 0u);
  EXPECT_EQ(best({{4.5}}), 0u);
}

TEST(BestSustainedTest, TheFirstChoiceWhereItTakesAsLong) {
  EXPECT_EQ(best({{4.50}, {4.56, true}, {4.51}}), 1u);
  EXPECT_EQ(best({{4.50}, {4.58, true}, {4.51}}), 0u);
  EXPECT_EQ(best({{4.51}, {4.50}}), 1u) << "others by their time alone";
}

TEST(EnergyLogTest, ALineThroughTheStepsOfTheCounter) {
  // 700 W, then 350 W; the counter advances every 0.1 s and is read more often.
  EnergyLog log;
  for (int i = 0; i <= 40; ++i) {
    int steps = i / 10;
    log.add(0.01 * i, steps <= 2 ? 70.0 * steps : 140 + 35.0 * (steps - 2));
  }
  EXPECT_NEAR(*log.between(0.12, 0.18), 0.06 * 700, 1e-9);
  EXPECT_NEAR(*log.between(0.22, 0.28), 0.06 * 350, 1e-9);
  EXPECT_NEAR(*log.between(0.15, 0.25), 0.05 * 700 + 0.05 * 350, 1e-9);
  // Outside, the nearest line goes on.
  EXPECT_NEAR(*log.between(0.05, 0.10), 0.05 * 700, 1e-9);
  EXPECT_NEAR(*log.between(0.40, 0.44), 0.04 * 350, 1e-9);
}

TEST(EnergyLogTest, NothingBeforeTheCounterAdvancedTwice) {
  EnergyLog log;
  EXPECT_FALSE(log.between(0, 1));
  log.add(0, 5);
  log.add(0.1, 5);
  log.add(0.2, 75);
  EXPECT_FALSE(log.between(0, 0.2)) << "when the first step began is not known";
  log.add(0.3, 145);
  EXPECT_NEAR(*log.between(0.2, 0.3), 70, 1e-9);
}
