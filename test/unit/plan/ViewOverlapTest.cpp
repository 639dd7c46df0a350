//===- ViewOverlapTest.cpp - Disjointness against brute force -------------===//

#include "runtime/plan/ViewOverlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

using namespace qwen;

namespace {

BufferType view(std::vector<int64_t> shape, std::vector<int64_t> strides) {
  BufferType type;
  type.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), type.shape.begin());
  std::copy(strides.begin(), strides.end(), type.strides.begin());
  return type;
}

/// Element numbers that the view touches.
std::set<int64_t> elements(const BufferType &type, int64_t offset) {
  std::set<int64_t> result = {offset};
  for (int d = 0; d < type.rank; ++d) {
    std::set<int64_t> next;
    for (int64_t base : result)
      for (int64_t i = 0; i < type.shape[d]; ++i)
        next.insert(base + i * type.strides[d]);
    result = next;
  }
  return result;
}

bool trulyDisjoint(const BufferType &a, int64_t aOffset, const BufferType &b,
                   int64_t bOffset) {
  std::set<int64_t> x = elements(a, aOffset), y = elements(b, bOffset);
  return std::none_of(x.begin(), x.end(),
                      [&](int64_t e) { return y.contains(e); });
}

TEST(ViewOverlap, SeesWhatLayersDo) {
  // Column slices of one matrix.
  BufferType left = view({4, 3}, {8, 1}), right = view({4, 5}, {8, 1});
  EXPECT_TRUE(provenDisjoint(left, 0, right, 3 * 4));
  EXPECT_FALSE(provenDisjoint(left, 0, right, 2 * 4));
  // Query and gate interleaved per head.
  BufferType head = view({4, 2, 8}, {32, 16, 1});
  EXPECT_TRUE(provenDisjoint(head, 0, head, 8 * 4));
  EXPECT_FALSE(provenDisjoint(head, 0, head, 7 * 4));
  // The whole matrix against a slice.
  EXPECT_FALSE(provenDisjoint(view({4, 8}, {8, 1}), 0, left, 0));
  // Rows apart.
  EXPECT_TRUE(
      provenDisjoint(view({2, 8}, {8, 1}), 0, view({2, 8}, {8, 1}), 16 * 4));
}

TEST(ViewOverlap, NeverClaimsTooMuch) {
  std::mt19937 random(7);
  auto number = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  int proven = 0;
  for (int round = 0; round < 20000; ++round) {
    auto draw = [&] {
      int rank = static_cast<int>(number(0, 3));
      std::vector<int64_t> shape, strides;
      for (int d = 0; d < rank; ++d) {
        shape.push_back(number(1, 4));
        strides.push_back(number(0, 12));
      }
      return view(shape, strides);
    };
    BufferType a = draw(), b = draw();
    int64_t aOffset = number(0, 12), bOffset = number(0, 12);
    if (!provenDisjoint(a, aOffset * 4, b, bOffset * 4))
      continue;
    ++proven;
    ASSERT_TRUE(trulyDisjoint(a, aOffset, b, bOffset))
        << toString(a) << " at " << aOffset << ", " << toString(b) << " at "
        << bOffset;
  }
  EXPECT_GT(proven, 100);
}

} // namespace
