//===- StreamSimulationTest.cpp - Two streams, timed by hand --------------===//

#include "runtime/forecast/StreamSimulation.h"

#include <deque>
#include <gtest/gtest.h>
#include <numeric>

using namespace qwen;

namespace {

/// Steps with waits that live as long as the list.
class Steps {
public:
  Steps &add(int stream, double seconds, std::vector<uint32_t> waits = {}) {
    held.push_back(std::move(waits));
    steps.push_back({stream, seconds, held.back()});
    return *this;
  }
  StreamTimes run() const { return simulateStreams(steps); }

private:
  std::deque<std::vector<uint32_t>> held;
  std::vector<TimedStep> steps;
};

double sum(const std::vector<double> &values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

TEST(StreamSimulation, NothingTakesNoTime) {
  StreamTimes times = simulateStreams({});
  EXPECT_EQ(times.seconds, 0);
  EXPECT_EQ(times.compute, 0);
  EXPECT_TRUE(times.exposed.empty());
}

TEST(StreamSimulation, OneStreamIsItsSum) {
  StreamTimes times = Steps().add(0, 2).add(0, 3).run();
  EXPECT_EQ(times.seconds, 5);
  EXPECT_EQ(times.compute, 5);
  EXPECT_EQ(sum(times.exposed), 0);
}

/// Two gathers; the second one is hidden by the first layer but for the end.
///   stream 1: gather 0-2, gather 2-6
///   stream 0:             layer 2-5,  layer 6-9
TEST(StreamSimulation, AGatherIsExposedAsFarAsNothingIsComputed) {
  StreamTimes times =
      Steps().add(1, 2).add(1, 4).add(0, 3, {0}).add(0, 3, {1}).run();
  EXPECT_EQ(times.seconds, 9);
  EXPECT_EQ(times.compute, 6);
  EXPECT_EQ(times.exposed, std::vector<double>({2, 1, 0, 0}));
}

/// What is left of a scatter when the last layer has ended.
///   stream 0: layer 0-4, layer 4-5
///   stream 1:             scatter 4-7
TEST(StreamSimulation, AScatterIsExposedAtTheEnd) {
  StreamTimes times = Steps().add(0, 4).add(1, 3, {0}).add(0, 1).run();
  EXPECT_EQ(times.seconds, 7);
  EXPECT_EQ(times.compute, 5);
  EXPECT_EQ(times.exposed, std::vector<double>({0, 2, 0}));
}

/// A gather queues behind a scatter: both are seen where the layer waits for
/// the gather alone.
///   stream 0: layer 0-1,                layer 6-7
///   stream 1:            scatter 1-4, gather 4-6
TEST(StreamSimulation, StreamsKeepTheirOrder) {
  StreamTimes times =
      Steps().add(0, 1).add(1, 3, {0}).add(1, 2).add(0, 1, {2}).run();
  EXPECT_EQ(times.seconds, 7);
  EXPECT_EQ(times.exposed, std::vector<double>({0, 3, 2, 0}));
}

/// A collective over several gaps of the compute stream.
///   stream 1: a 0-1, b 1-2,     c 5-12
///   stream 0: x 1-2 (a), y 2-5 (b), z 5-7, w 12-13 (c)
TEST(StreamSimulation, ExposedTimesAddUp) {
  StreamTimes times = Steps()
                          .add(1, 1)
                          .add(1, 1)
                          .add(0, 1, {0})
                          .add(0, 3, {1})
                          .add(1, 7, {3})
                          .add(0, 2)
                          .add(0, 1, {4})
                          .run();
  EXPECT_EQ(times.seconds, 13);
  EXPECT_EQ(times.compute, 7);
  EXPECT_EQ(times.exposed, std::vector<double>({1, 0, 0, 0, 5, 0, 0}));
  EXPECT_EQ(sum(times.exposed), times.seconds - times.compute);
}

} // namespace
