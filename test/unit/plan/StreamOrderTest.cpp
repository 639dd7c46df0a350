//===- StreamOrderTest.cpp - What waits say about the order of launches ---===//

#include "qwen/Plan/StreamOrder.h"

#include <gtest/gtest.h>

using namespace qwen;

namespace {

/// Launches 1, 3 and 6 are collectives. Launch 4 waits for the first, launch 7
/// for the second; nothing waits for the last.
const std::vector<StreamLaunch> program = {
    {}, {1, {0}}, {}, {1, {2}}, {0, {1}}, {}, {1, {5}}, {0, {3}}, {}};

TEST(StreamOrderTest, CollectivesAreDoneByTheFirstLaunchThatKnows) {
  StreamOrder order(program);
  std::vector<int64_t> done;
  for (size_t step = 0; step < program.size(); ++step)
    done.push_back(order.doneBy(int64_t(step)));
  EXPECT_EQ(done, (std::vector<int64_t>{0, 4, 2, 7, 4, 5, 9, 7, 8}));
}

TEST(StreamOrderTest, AWaitTellsOfAllCollectivesBefore) {
  StreamOrder order({{1}, {}, {1}, {0, {2}}, {0, {0}}});
  EXPECT_EQ(order.doneBy(0), 3);
  EXPECT_EQ(order.doneBy(2), 3);
}

TEST(StreamOrderTest, ComputationBetweenHides) {
  StreamOrder order(program);
  auto flopsOf = [](int64_t step) { return int64_t(1) << step; };
  auto bytesOf = [](int64_t step) { return 100 * step; };
  auto expectWork = [&](int64_t step, std::vector<int64_t> launches) {
    HidingWork work = order.hidingWork(step, flopsOf, bytesOf);
    HidingWork expected{int64_t(launches.size()), 0, 0};
    for (int64_t launch : launches) {
      expected.flops += flopsOf(launch);
      expected.bytes += bytesOf(launch);
    }
    EXPECT_EQ(work.launches, expected.launches) << step;
    EXPECT_EQ(work.flops, expected.flops) << step;
    EXPECT_EQ(work.bytes, expected.bytes) << step;
  };
  expectWork(1, {2});
  expectWork(3, {4, 5});
  expectWork(6, {7, 8});
}

TEST(StreamOrderTest, SumsStopAtTheLargestNumber) {
  StreamOrder order({{1}, {}, {}});
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  auto large = [](int64_t) { return most; };
  HidingWork work = order.hidingWork(0, large, large);
  EXPECT_EQ(work.launches, 2);
  EXPECT_EQ(work.flops, most);
  EXPECT_EQ(work.bytes, most);
}

} // namespace
