//===- PlaceBuffersTest.cpp - The packing of the memory planner -----------===//

#include "lib/Memory/PlaceBuffers.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

using namespace qwen;

namespace {

void expectNoOverlap(const std::vector<LiveRange> &ranges, int64_t size) {
  for (size_t i = 0; i < ranges.size(); ++i) {
    const LiveRange &a = ranges[i];
    EXPECT_GE(a.offset, 0);
    EXPECT_LE(a.offset + a.size, size);
    EXPECT_EQ(a.offset % 64, 0);
    for (size_t j = 0; j < i; ++j) {
      const LiveRange &b = ranges[j];
      bool together = a.first <= b.last && b.first <= a.last;
      bool apart =
          a.offset + a.size <= b.offset || b.offset + b.size <= a.offset;
      EXPECT_TRUE(!together || apart) << i << " and " << j;
    }
  }
}

TEST(PlaceBuffers, NothingNeedsNothing) {
  EXPECT_EQ(placeBuffers({}), 0);
  EXPECT_EQ(peakBytes({}), 0);
}

TEST(PlaceBuffers, TakesTheSmallestGapThatFits) {
  // Three large ones leave gaps of 128 and 64 when the second and fourth die.
  std::vector<LiveRange> ranges = {{1024, 0, 9}, {128, 0, 1}, {960, 0, 9},
                                   {64, 0, 1},   {896, 0, 9}, {64, 2, 9}};
  int64_t size = placeBuffers(ranges);
  expectNoOverlap(ranges, size);
  EXPECT_EQ(size, peakBytes(ranges));
}

TEST(PlaceBuffers, ReusesMemoryOfTheDead) {
  std::vector<LiveRange> chain;
  for (int64_t step = 0; step < 100; ++step)
    chain.push_back({256, step, step + 1});
  EXPECT_EQ(placeBuffers(chain), 512);
  expectNoOverlap(chain, 512);
}

TEST(PlaceBuffers, LivesTouchWhereOneLaunchUsesBoth) {
  std::vector<LiveRange> ranges = {{64, 0, 3}, {64, 3, 5}};
  EXPECT_EQ(placeBuffers(ranges), 128);
}

TEST(PlaceBuffers, RandomLives) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<LiveRange> ranges;
    for (int i = 0; i < 120; ++i) {
      int64_t first = random() % 60;
      ranges.push_back({64 * int64_t(1 + random() % 50), first,
                        first + int64_t(random() % 20)});
    }
    std::vector<LiveRange> again = ranges;
    int64_t size = placeBuffers(ranges);
    expectNoOverlap(ranges, size);
    EXPECT_GE(size, peakBytes(ranges));
    EXPECT_EQ(placeBuffers(again), size); // deterministic
    for (size_t i = 0; i < ranges.size(); ++i)
      EXPECT_EQ(again[i].offset, ranges[i].offset);
  }
}

} // namespace
