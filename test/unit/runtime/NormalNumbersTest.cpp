//===- NormalNumbersTest.cpp - Normal numbers: values, splits, bits -------===//

#include "runtime/trainer/NormalNumbers.h"

#include "qwen/Support/Random.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

using namespace qwen;

static constexpr uint32_t seed = 7, tensor = 1234;

TEST(NormalNumbersTest, AreThoseOfBoxAndMuller) {
  std::vector<double> numbers(100'000);
  uint64_t first = (uint64_t(1) << 32) - 50'000; // both words of the index
  fillNormal(numbers, seed, tensor, first);
  for (size_t i = 0; i < numbers.size(); ++i) {
    auto bits =
        randomBits(seed, RandomUse::Initialization, 0, tensor, first + i);
    double radius = std::sqrt(-2 * std::log(toUnitInterval(bits[0], bits[1])));
    double angle = 2 * std::numbers::pi * toUnitInterval(bits[2], bits[3]);
    // The angle of the reference is rounded twice at up to 2 pi; the functions
    // are within a unit in the last place each.
    ASSERT_NEAR(numbers[i], radius * std::cos(angle),
                16 * std::numeric_limits<double>::epsilon() * radius)
        << i;
  }
}

TEST(NormalNumbersTest, DoNotDependOnTheSplit) {
  std::vector<double> whole(1000);
  fillNormal(whole, seed, tensor, 0);
  for (size_t length : {1, 63, 64, 65, 129}) {
    std::vector<double> parts(whole.size());
    for (size_t first = 0; first < parts.size(); first += length)
      fillNormal(std::span(parts).subspan(
                     first, std::min(length, parts.size() - first)),
                 seed, tensor, first);
    EXPECT_EQ(parts, whole) << length;
  }
}

TEST(NormalNumbersTest, HaveTheSameBitsOnEveryProcessor) {
  // FNV-1a over the bits of numbers from all quadrants and binades.
  std::vector<double> numbers(1 << 16);
  fillNormal(numbers, seed, tensor, 0);
  uint64_t hash = 14695981039346656037u;
  for (double number : numbers)
    hash = (hash ^ std::bit_cast<uint64_t>(number)) * 1099511628211u;
  EXPECT_EQ(hash, 0xd4b76208f438c8e6u);
}
