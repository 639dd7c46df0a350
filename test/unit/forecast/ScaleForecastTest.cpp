//===- ScaleForecastTest.cpp - A small plan on more ranks -----------------===//

#include "runtime/forecast/ScaleForecast.h"
#include "../plan/PlanDraft.h"

#include <gtest/gtest.h>

using namespace qwen;
using namespace qwen::test;

namespace {

/// The plan of two tensors with 64 elements together, which trains.
StatusOr<Plan> trainingPlan() {
  PlanDraft draft = shardedPlan();
  draft.programs[0].name = "first_micro_step";
  return parse(draft.build());
}

/// 1 byte of memory a second, arithmetic for nothing, and lines of 1 byte a
/// second.
ScaleAssumptions slowMachine() {
  ScaleAssumptions assumptions;
  assumptions.device = {1e30, 1, 1, 1};
  assumptions.cluster.linkBandwidth = 1;
  assumptions.cluster.linkEfficiency = 1;
  assumptions.cluster.networkEfficiency = 1;
  return assumptions;
}

/// The same, where the ranks also exchange two rows of the bucket, taken for a
/// table of such rows: each rank's tokens look up one.
StatusOr<Plan> exchangingPlan(int64_t width) {
  using enum plan::ElementType;
  PlanDraft draft = shardedPlan();
  draft.programs[0].name = "first_micro_step";
  auto bytes = uint64_t(2 * width * 4);
  draft.arenas[6] =
      plan::Arena(1024 + 2 * bytes, plan::BufferClass::Activation);
  draft.buffers.push_back({1024, bytes, 6, 0, 4, 6});
  draft.buffers.push_back({1024 + bytes, bytes / 2, 6, 0, 5, 6});
  draft.types.push_back(tensor(F32, {2, width}));
  draft.types.push_back(tensor(F32, {2 * width}));
  draft.types.push_back(tensor(F32, {width}));
  uint32_t rows = 14, full = 15, mine = 16;
  draft.views.push_back(plan::View(14, 11, 0));
  draft.views.push_back(plan::View(14, 12, 0));
  draft.views.push_back(plan::View(15, 13, 0));
  auto &steps = draft.programs[0].steps;
  steps.push_back(
      embeddingShard(ShardedValue, ShardedRng, rows, 0, 128 / width));
  steps.push_back(fill(mine, 0));
  steps.push_back(reduceScatter(full, mine));
  draft.programs[0].streams[6] = 1;
  draft.programs[0].waits[6] = {5};
  return parse(draft.build());
}

ScaleForecast forecastOf(const ScaleAssumptions &assumptions,
                         const StatusOr<Plan> &plan = trainingPlan()) {
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  auto forecast = ScaleForecast::create(*plan, assumptions);
  EXPECT_TRUE(forecast.ok()) << forecast.status().message();
  return *forecast;
}

TEST(ScaleForecast, RefusesAPlanForOneRank) {
  auto plan = parse(matrixPlan().build());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  auto forecast = ScaleForecast::create(*plan, {});
  ASSERT_FALSE(forecast.ok());
  EXPECT_NE(forecast.status().message().find("--world-size"),
            std::string::npos);
}

TEST(ScaleForecast, RefusesAPlanThatDoesNotTrain) {
  auto plan = parse(shardedPlan().build());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  auto forecast = ScaleForecast::create(*plan, {});
  ASSERT_FALSE(forecast.ok());
  EXPECT_NE(forecast.status().message().find("first_micro_step"),
            std::string::npos);
}

/// The bucket's 64 elements are padded to 64 a rank.
TEST(ScaleForecast, BucketsArePaddedForTheirRanks) {
  ScaleForecast forecast = forecastOf(slowMachine());
  for (int64_t ranks : {2, 4, 8}) {
    StepForecast step = forecast.step(ranks);
    ASSERT_EQ(step.units.size(), 2u);
    const UnitForecast &layer = step.units[0];
    EXPECT_EQ(layer.name, "layer");
    EXPECT_EQ(layer.gathered, double(ranks) * 64 * 4);
    EXPECT_EQ(layer.scattered, double(ranks) * 64 * 4);
    // Every rank passes on what the others have: 256 bytes of each.
    EXPECT_NEAR(layer.gatherSeconds, double(ranks - 1) * 256, 1e-3);
    EXPECT_NEAR(layer.scatterSeconds, double(ranks - 1) * 256, 1e-3);
    // The norm's terms: 8 bytes a rank.
    EXPECT_NEAR(step.units[1].gatherSeconds, double(ranks - 1) * 8, 1e-3);
  }
}

TEST(ScaleForecast, OneRankMovesNothing) {
  StepForecast step = forecastOf(slowMachine()).step(1);
  EXPECT_EQ(step.gatherSeconds, 0);
  EXPECT_EQ(step.scatterSeconds, 0);
  EXPECT_EQ(step.exposed, 0);
  EXPECT_EQ(step.seconds, step.compute);
}

TEST(ScaleForecast, OnThePlansRanksMemoryIsThePlans) {
  auto plan = trainingPlan();
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ScaleForecast forecast = forecastOf(slowMachine());
  EXPECT_EQ(forecast.step(2).memoryBytes,
            double(plan->info().forecast.total()));
}

/// 32 of 64 elements a rank would do on 2 ranks, but shards are multiples of
/// 64: nothing is left to shrink.
TEST(ScaleForecast, WorkOnShardsFollowsTheirSize) {
  ScaleForecast forecast = forecastOf(slowMachine());
  EXPECT_EQ(forecast.step(1).compute, forecast.step(2).compute);
  EXPECT_EQ(forecast.step(2).compute, forecast.step(8).compute);
}

TEST(ScaleForecast, AMeasuredStepSetsThePace) {
  ScaleAssumptions assumptions = slowMachine();
  assumptions.measuredSeconds = 3;
  EXPECT_DOUBLE_EQ(forecastOf(assumptions).step(1).seconds, 3);
}

/// Rows grow with the ranks' tokens; where they are more than the table, the
/// compiler would have the ranks gather that.
TEST(ScaleForecast, AnExchangeMovesRowsOrTheTable) {
  ScaleAssumptions assumptions = slowMachine();
  assumptions.cluster.networkBandwidth = 1;
  ScaleForecast none = forecastOf(assumptions),
                narrow = forecastOf(assumptions, exchangingPlan(8)),
                wide = forecastOf(assumptions, exchangingPlan(128));
  auto more = [&](const ScaleForecast &forecast, int64_t ranks, int64_t over) {
    const UnitForecast with = forecast.step(ranks, over).units[0],
                       without = none.step(ranks, over).units[0];
    EXPECT_EQ(with.gathered, without.gathered);
    return with.scattered - without.scattered;
  };
  for (int64_t ranks : {2, 4, 8}) {
    EXPECT_EQ(more(narrow, ranks, ranks), double(ranks) * 8 * 4);
    // A row is all of the bucket, of which a rank holds 64 elements.
    EXPECT_EQ(more(wide, ranks, ranks), double(ranks) * 64 * 4);
  }
  // Groups exchange rows among themselves.
  EXPECT_EQ(more(narrow, 32, 8), more(narrow, 8, 8));
  EXPECT_NEAR(narrow.step(32, 8).scatterSeconds -
                  none.step(32, 8).scatterSeconds,
              7 * 8 * 4, 1e-3);
}

/// Groups of 8 of 32 ranks: gathers stay in a group, sums cross four of them.
TEST(ScaleForecast, HybridShardingSumsAcrossGroups) {
  ScaleAssumptions assumptions = slowMachine();
  assumptions.cluster.networkBandwidth = 1;
  ScaleForecast forecast = forecastOf(assumptions);
  StepForecast plain = forecast.step(8), hybrid = forecast.step(32, 8);
  EXPECT_EQ(hybrid.memoryBytes, plain.memoryBytes);
  EXPECT_EQ(hybrid.units[0].gatherSeconds, plain.units[0].gatherSeconds);
  // A shard of 256 bytes, twice 3/4 of it.
  EXPECT_NEAR(hybrid.units[0].scatterSeconds,
              plain.units[0].scatterSeconds + 2 * 0.75 * 256, 1e-3);
}

/// Whatever is exposed follows from the plan's own streams and waits.
TEST(ScaleForecast, ExposedTimesAreThoseOfTheUnits) {
  StepForecast step = forecastOf(slowMachine()).step(4);
  double sum = 0;
  for (const UnitForecast &unit : step.units)
    sum += unit.exposedSeconds;
  EXPECT_NEAR(step.exposed, sum, 1e-6);
  EXPECT_GT(step.exposed, 0);
}

TEST(ScaleForecast, TheLimitIsTheFirstSizeThatStaysAbove) {
  ScaleAssumptions fast = slowMachine();
  fast.cluster.linkBandwidth = fast.cluster.networkBandwidth = 1e30;
  EXPECT_EQ(findScalingLimit(forecastOf(fast), 8, 0.05, 1024), 0);
  ScaleForecast slow = forecastOf(slowMachine());
  EXPECT_EQ(findScalingLimit(slow, 8, 0.0, 1024), 2);
  EXPECT_EQ(findScalingLimit(slow, 8, 1.0, 1024), 0);
}

} // namespace
