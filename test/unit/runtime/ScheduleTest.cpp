//===- ScheduleTest.cpp - Learning rates, constants, initial weights ------===//

#include "runtime/trainer/Schedule.h"
#include "BigramEngine.h"
#include "TemporaryFolder.h"
#include "runtime/trainer/Initialize.h"

#include <numeric>

using namespace qwen;

static Schedule schedule(ScheduleKind kind, StepSpan warmup) {
  Schedule result;
  result.kind = kind;
  result.peak = 1.0;
  result.minimum = 0.1;
  result.warmup = warmup;
  return result;
}

TEST(ScheduleTest, WarmsUpToThePeak) {
  for (auto kind : {ScheduleKind::Constant, ScheduleKind::Linear,
                    ScheduleKind::Cosine, ScheduleKind::Wsd}) {
    Schedule s = schedule(kind, {4, false});
    EXPECT_DOUBLE_EQ(s.rate(0, 100), 0.25);
    EXPECT_DOUBLE_EQ(s.rate(3, 100), 1.0);
    EXPECT_DOUBLE_EQ(s.rate(4, 100), 1.0);
    EXPECT_EQ(parseScheduleKind(scheduleKindName(kind)), kind);
    // Never above the peak, never up again, at the floor when all is done.
    for (int64_t step = 4; step < 120; ++step) {
      EXPECT_LE(s.rate(step + 1, 100), s.rate(step, 100));
      EXPECT_GE(s.rate(step, 100), 0.1);
    }
    EXPECT_DOUBLE_EQ(s.rate(100, 100),
                     kind == ScheduleKind::Constant ? 1.0 : 0.1);
  }
  EXPECT_EQ(parseScheduleKind("step"), std::nullopt);
}

TEST(ScheduleTest, Shapes) {
  EXPECT_DOUBLE_EQ(schedule(ScheduleKind::Linear, {}).rate(50, 100), 0.55);
  EXPECT_DOUBLE_EQ(schedule(ScheduleKind::Cosine, {}).rate(50, 100), 0.55);
  EXPECT_NEAR(schedule(ScheduleKind::Cosine, {}).rate(25, 100),
              0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2, 1e-15);
  Schedule wsd = schedule(ScheduleKind::Wsd, {});
  wsd.decay = {0.2, true};
  EXPECT_DOUBLE_EQ(wsd.rate(80, 100), 1.0);
  EXPECT_DOUBLE_EQ(wsd.rate(90, 100), 0.55);
  // A warm-up longer than the run leaves nothing to decay.
  EXPECT_DOUBLE_EQ(schedule(ScheduleKind::Cosine, {500, false}).rate(9, 10),
                   1.0);
}

TEST(ScheduleTest, StepSpans) {
  auto steps = [](const char *text, int64_t total) {
    auto span = parseStepSpan(text);
    EXPECT_TRUE(span.ok()) << text;
    return span.ok() ? span->steps(total) : -1;
  };
  EXPECT_EQ(steps("100", 1000), 100);
  EXPECT_EQ(steps("1", 1000), 1);
  EXPECT_EQ(steps("0", 1000), 0);
  EXPECT_EQ(steps("0.03", 1000), 30);
  EXPECT_EQ(steps("5%", 1000), 50);
  EXPECT_EQ(steps("100%", 7), 7);
  EXPECT_EQ(steps("100", 7), 7);
  auto text = [](const char *given) { return toString(*parseStepSpan(given)); };
  EXPECT_EQ(text("1"), "1");
  EXPECT_EQ(text("100%"), "100%");
  EXPECT_EQ(text("0.25"), "25%");
  for (const char *bad :
       {"", "-1", "1.5", "x", "3 steps", "150%", "nan", "inf"})
    EXPECT_ERROR(parseStepSpan(bad).status(), "neither a number of steps");
}

TEST(HyperTest, RoundsOnceFromDouble) {
  AdamWOptions options;
  options.beta1 = 0.9;
  options.beta2 = 0.999;
  auto hyper = makeHyper(options, 3e-4, 1);
  EXPECT_EQ(hyper[0], 3e-4f);
  EXPECT_EQ(hyper[1], 0.1f);
  EXPECT_EQ(hyper[2], 0.001f) << "1 - 0.999, not 1 - 0.999f";
  EXPECT_EQ(hyper[4], 0.1f);
  EXPECT_EQ(hyper[5], 1.0f);
  EXPECT_EQ(hyper[6], 0.1f) << "1 - 0.9, not 1 - 0.9f";
  EXPECT_EQ(hyper[7], 0.001f);
  hyper = makeHyper(options, 3e-4, 1'000'000'000);
  EXPECT_EQ(hyper[6], 1.0f);
  options.beta1 = 0;
  EXPECT_EQ(makeHyper(options, 1, 3)[6], 1.0f);
}

TEST(InitializeTest, NormalHasMeanAndDeviation) {
  BigramEngine a({8, 2}, 256), b({8, 2}, 256), c({8, 2}, 256);
  ASSERT_OK(initializeParameters(a, 1));
  ASSERT_OK(initializeParameters(b, 1));
  ASSERT_OK(initializeParameters(c, 2));
  EXPECT_EQ(a.table, b.table);
  EXPECT_NE(a.table, c.table);
  double n = double(a.table.size()), sum = 0, squares = 0;
  for (float w : a.table) {
    sum += w;
    squares += double(w) * w;
  }
  // Five standard errors: of the mean sigma / sqrt(n), of the variance
  // sigma^2 sqrt(2 / n).
  EXPECT_LT(std::abs(sum / n), 5 * 0.02 / std::sqrt(n));
  EXPECT_LT(std::abs(squares / n / 4e-4 - 1), 5 * std::sqrt(2 / n));
}

TEST(InitializeTest, OtherKinds) {
  struct Kind {
    ParameterInit init;
    float low, high;
  };
  for (Kind kind :
       {Kind{ParameterInit::Zero, 0, 0}, Kind{ParameterInit::One, 1, 1},
        Kind{ParameterInit::ALog, std::log(0.01f), std::log(16.0f)}}) {
    BigramEngine engine({8, 2}, 64);
    const_cast<ParameterRole &>(engine.roles()[0]).init = kind.init;
    ASSERT_OK(initializeParameters(engine, 1));
    auto [low, high] =
        std::minmax_element(engine.table.begin(), engine.table.end());
    EXPECT_GE(*low, kind.low);
    EXPECT_LE(*high, kind.high);
    if (kind.init != ParameterInit::ALog)
      continue;
    // Half of the values of U(0.01, 16) lie above 8.005.
    auto above = std::count_if(engine.table.begin(), engine.table.end(),
                               [](float x) { return x > std::log(8.005f); });
    double n = double(engine.table.size());
    EXPECT_LT(std::abs(double(above) - n / 2), 5 * std::sqrt(n) / 2);
  }
}
