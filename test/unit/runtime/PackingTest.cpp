//===- PackingTest.cpp - Properties of packs and batches ------------------===//

#include "TokenFile.h"
#include "qwen/Support/Random.h"
#include "runtime/data/Batch.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

using namespace qwen;

static TokenDataset dataset(const TemporaryFolder &folder,
                            const std::vector<int> &lengths) {
  TokenFile file;
  file.addLengths(lengths);
  file.write(folder / "t.safetensors");
  auto data = TokenDataset::open(folder / "t.safetensors", 64);
  EXPECT_TRUE(data.ok()) << data.status().message();
  return std::move(data).value();
}

static std::vector<int> randomLengths(size_t count, int most) {
  std::mt19937 random(7);
  std::vector<int> lengths(count);
  for (int &length : lengths)
    length = 1 + int(random() % unsigned(most));
  return lengths;
}

static std::vector<std::vector<uint32_t>> packsOf(const EpochPacking &packing) {
  std::vector<std::vector<uint32_t>> packs;
  for (int64_t i = 0; i < packing.packs(); ++i)
    packs.emplace_back(packing.pack(i).begin(), packing.pack(i).end());
  return packs;
}

TEST(RandomTest, KnownAnswersOfPhilox) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                       {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  EXPECT_GT(toUnitInterval(0, 0), 0.0);
  EXPECT_LT(toUnitInterval(~0u, ~0u), 1.0);
}

TEST(PackingTest, EveryDocumentOnceWithinTheLimits) {
  TemporaryFolder folder;
  // More than one window, and lengths up to the pack itself.
  TokenDataset data = dataset(folder, randomLengths(9000, 100));
  for (PackLimits limits : {PackLimits{100, 64}, PackLimits{100, 2},
                            PackLimits{257, 1}, PackLimits{1000, 8}}) {
    auto packing = EpochPacking::create(data, limits, 1, 0);
    ASSERT_OK(packing.status());
    std::vector<int> seen(9000);
    for (auto &pack : packsOf(*packing)) {
      int64_t tokens = 0;
      for (uint32_t document : pack) {
        ++seen[document];
        tokens += data.length(document);
      }
      EXPECT_FALSE(pack.empty());
      EXPECT_LE(tokens, limits.tokens);
      EXPECT_LE(int64_t(pack.size()), limits.documents);
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), 9000);
    EXPECT_DOUBLE_EQ(packing->efficiency(),
                     double(data.tokens()) /
                         double(packing->packs() * limits.tokens));
  }
}

TEST(PackingTest, BestFitDecreasingFillsPacks) {
  TemporaryFolder folder;
  TokenDataset data = dataset(folder, randomLengths(4000, 100));
  auto packing = EpochPacking::create(data, {1000, 1000}, 3, 0);
  ASSERT_OK(packing.status());
  // Small pieces fill every pack but the last to within one token or so.
  EXPECT_GE(packing->packs(), (data.tokens() + 999) / 1000);
  EXPECT_LE(packing->packs(), (data.tokens() + 999) / 1000 + 1);
  // 6 + 4 and 5 + 5 fill two packs exactly; first-come would need three.
  TemporaryFolder other;
  TokenDataset four = dataset(other, {4, 5, 6, 5});
  auto two = EpochPacking::create(four, {10, 8}, 0, 0);
  ASSERT_OK(two.status());
  EXPECT_EQ(two->packs(), 2);
  EXPECT_EQ(two->efficiency(), 1.0);
}

TEST(PackingTest, DependsOnSeedAndEpochOnly) {
  TemporaryFolder folder;
  TokenDataset data = dataset(folder, randomLengths(500, 50));
  auto packs = [&](uint32_t seed, uint32_t epoch) {
    auto packing = EpochPacking::create(data, {100, 16}, seed, epoch);
    EXPECT_TRUE(packing.ok());
    return packsOf(*packing);
  };
  EXPECT_EQ(packs(1, 2), packs(1, 2));
  EXPECT_NE(packs(1, 2), packs(1, 3));
  EXPECT_NE(packs(1, 2), packs(2, 2));
}

TEST(PackingTest, InOrderForEvaluation) {
  TemporaryFolder folder;
  TokenDataset data = dataset(folder, {4, 5, 6, 5});
  auto packing = EpochPacking::createInOrder(data, {10, 8});
  ASSERT_OK(packing.status());
  using Packs = std::vector<std::vector<uint32_t>>;
  EXPECT_EQ(packsOf(*packing), (Packs{{0, 1}, {2}, {3}}));
  auto single = EpochPacking::createInOrder(data, {10, 1});
  ASSERT_OK(single.status());
  EXPECT_EQ(single->packs(), 4);
}

TEST(PackingTest, NamesADocumentThatDoesNotFit) {
  TemporaryFolder folder;
  TokenDataset data = dataset(folder, {4, 11, 5});
  EXPECT_ERROR(EpochPacking::create(data, {10, 8}, 0, 0).status(),
               "document 1 has 11 tokens, a pack of this plan holds 10");
  EXPECT_ERROR(EpochPacking::createInOrder(data, {10, 8}).status(),
               "document 1 has 11 tokens");
}

TEST(PackingTest, PermutationIsOne) {
  for (uint32_t count : {0u, 1u, 2u, 1000u}) {
    auto order = permutation(count, 5, 6, 7);
    std::set<uint32_t> distinct(order.begin(), order.end());
    EXPECT_EQ(distinct.size(), count);
    EXPECT_TRUE(distinct.empty() || *distinct.rbegin() == count - 1);
  }
  EXPECT_NE(permutation(100, 5, 6, 7), permutation(100, 5, 6, 8));
}

TEST(BatchTest, LabelsPositionsBoundariesAndPadding) {
  TemporaryFolder folder;
  TokenFile file;
  file.add({10, 11, 12});
  file.add({20, 21}, /*supervised=*/false);
  file.add({30});
  file.write(folder / "t.safetensors");
  auto data = TokenDataset::open(folder / "t.safetensors", 64);
  ASSERT_OK(data.status());
  Batch batch;
  std::vector<uint32_t> documents = {1, 0, 2};
  // Filled twice: nothing of the first content may be left.
  ASSERT_OK(fillBatch(*data, std::vector<uint32_t>{0, 0}, {8, 4}, batch));
  ASSERT_OK(fillBatch(*data, documents, {8, 4}, batch));
  using Ints = std::vector<int32_t>;
  constexpr int32_t no = ignoredLabel;
  EXPECT_EQ(batch.tokens, (Ints{20, 21, 10, 11, 12, 30, 0, 0}));
  EXPECT_EQ(batch.labels, (Ints{no, no, 11, 12, no, no, no, no}));
  EXPECT_EQ(batch.positions, (Ints{0, 1, 0, 1, 2, 0, 0, 0}));
  EXPECT_EQ(batch.cuSeqlens, (Ints{0, 2, 5, 6, 6}));
  EXPECT_EQ(batch.supervised, 2);
  EXPECT_EQ(batch.used, 6);
  EXPECT_EQ(batch.contextPairs, 3 + 6 + 1);
  EXPECT_EQ(countSupervised(*data, documents), 2);
  EXPECT_ERROR(fillBatch(*data, documents, {8, 2}, batch),
               "a pack of 3 documents; the plan has room for 2");
  EXPECT_ERROR(fillBatch(*data, documents, {5, 3}, batch),
               "a pack of 6 tokens; the plan has room for 5");
}
