//===- DocumentsTest.cpp - Document boundaries from a buffer --------------===//

#include "runtime/kernels/cpu/Documents.h"
#include "ParityTesting.h"

using namespace qwen;
using namespace qwen::cpu;
using namespace qwen::parity;

/// Lengths of the documents that `boundaries` give a pack of 10 tokens.
static std::vector<int64_t> lengths(const Values &boundaries) {
  Tensor cuSeqlens(DType::I32, {static_cast<int64_t>(boundaries.size())});
  cuSeqlens.setValues(boundaries);
  Documents documents(cuSeqlens, 10);
  std::vector<int64_t> all;
  int64_t sum = 0;
  for (int64_t d = 0; d < documents.count(); ++d) {
    all.push_back(documents.length(d));
    for (int64_t t = documents.begin(d); t < documents.end(d); ++t)
      EXPECT_EQ(documents.find(t), d);
    sum += all.back();
  }
  EXPECT_EQ(documents.total(), sum);
  return all;
}

TEST(Documents, MayBeEmptyOrEndBeforeThePack) {
  using Lengths = std::vector<int64_t>;
  EXPECT_EQ(lengths({0, 10}), Lengths({10}));
  EXPECT_EQ(lengths({0, 0, 3, 3, 7, 7}), Lengths({0, 3, 0, 4, 0}));
  EXPECT_EQ(lengths({0, 0, 0}), Lengths({0, 0}));
}

TEST(Documents, NeverLeaveThePackNorOverlap) {
  using Lengths = std::vector<int64_t>;
  EXPECT_EQ(lengths({0, 4, 99}), Lengths({4, 6}));
  EXPECT_EQ(lengths({-5, 4}), Lengths({4}));
  // The scratch of the kernels has room for one pack's blocks, not for these.
  EXPECT_EQ(lengths({0, 10, 0, 10, 0, 10}), Lengths({10}));
  EXPECT_EQ(lengths({0, 4, 3, 10}), Lengths({4}));
  EXPECT_EQ(lengths({5, 4}), Lengths());
  // No token before the last boundary is without a document.
  EXPECT_EQ(lengths({5, 10}), Lengths({10}));
  EXPECT_EQ(lengths({5, 5, 7}), Lengths({5, 2}));
  EXPECT_EQ(lengths({99, 99}), Lengths({10}));
}
