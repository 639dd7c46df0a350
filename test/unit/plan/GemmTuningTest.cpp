//===- GemmTuningTest.cpp - Tuning tables, blocks of the loss -------------===//

#include "runtime/kernels/cuda/GemmTuning.h"
#include "qwen/Plan/CudaKernels.h"

#include <gtest/gtest.h>

using namespace qwen;
using namespace qwen::cuda;

namespace {

BufferType matrix(DType dtype, int64_t rows, int64_t columns) {
  BufferType type;
  type.dtype = dtype;
  type.rank = 2;
  type.shape = {rows, columns};
  type.strides = {columns, 1};
  return type;
}

LinearCrossEntropyGradArgs loss(int64_t tokens, int64_t hidden,
                                int64_t vocabulary) {
  LinearCrossEntropyGradArgs args;
  static_cast<BufferType &>(args.x) = matrix(DType::BF16, tokens, hidden);
  static_cast<BufferType &>(args.weight) =
      matrix(DType::BF16, vocabulary, hidden);
  return args;
}

LossBlocks blocksOf(const LinearCrossEntropyGradArgs &args) {
  return LossBlocks(args.x, args.weight);
}

} // namespace

TEST(GemmTuning, WhatIsWrittenIsRead) {
  TuningTable table;
  for (bool transposeA : {false, true})
    for (bool adds : {false, true}) {
      GemmShape shape{.m = 8192,
                      .n = 5120,
                      .k = 17408,
                      .transposeA = transposeA,
                      .transposeB = !transposeA,
                      .adds = adds,
                      .result = adds ? DType::F32 : DType::BF16};
      table[shape] = {{66, 394, 36, 1, 0, 0, 0, 0, 3}, 730.5, 703.25};
    }
  table[GemmShape{.m = 1, .n = 2, .k = 3, .operands = DType::F32}] = {
      {}, 10, 10};
  std::string text = "# A comment.\n\n" + formatTuningTable(table);
  StatusOr<TuningTable> read = parseTuningTable(text, "table");
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read->size(), table.size());
  for (const auto &[shape, entry] : table) {
    ASSERT_TRUE(read->contains(shape)) << toString(shape);
    EXPECT_EQ(read->at(shape).algorithm, entry.algorithm);
  }
  EXPECT_EQ(formatTuningTable(*read), formatTuningTable(table));
}

TEST(GemmTuning, TheBuiltInTableIsSound) {
  StatusOr<TuningTable> table = parseTuningTable(shippedTuningTable(), "h200");
  EXPECT_TRUE(table.ok()) << table.status().message();
}

TEST(GemmTuning, WhatIsNoTableIsRefused) {
  for (const char *text :
       {"8192x5120 nt bf16 bf16 set: first = 1 1",
        "8192x5120x0 nt bf16 bf16 set: first = 1 1",
        "8192x5120x64 nx bf16 bf16 set: first = 1 1",
        "8192x5120x64 nt bf16 f64 set: first = 1 1",
        "8192x5120x64 nt bf16 bf16 set first = 1 1",
        "8192x5120x64 nt bf16 bf16 set: first",
        "8192x5120x64 nt bf16 bf16 set: = 1 1",
        "8192x5120x64 nt bf16 bf16 set: first = 1 1 1",
        "8192x5120x64 nt bf16 bf16 set: 1 2 3 4 5 6 7 8 -9 = 1 1",
        "8192x5120x64 nt bf16 bf16 set: 1 2 3 4 5 6 7 8 4294967296 = 1 1",
        "8192x5120x64 nt bf16 bf16 set: 1 2 3 4 5 6 7 8 99999999999999999999 "
        "= 1 1"}) {
    StatusOr<TuningTable> table = parseTuningTable(text, "table");
    ASSERT_FALSE(table.ok()) << text;
    EXPECT_NE(table.status().message().find("table:1:"), std::string::npos)
        << table.status().message();
  }
}

TEST(LossBlocks, LogitsStayWithinTheirBytes) {
  for (int64_t tokens : {1, 100, 4096, 8192, 10000, 16384, 32768, 16411})
    for (int64_t vocabulary : {5, 264, 2048, 32000, 248320, 262144}) {
      auto args = loss(tokens, 64, vocabulary);
      LossBlocks blocks = blocksOf(args);
      EXPECT_GE(blocks.stride, vocabulary);
      EXPECT_LE(blocks.rows * blocks.stride * 2, 2'100'000'000);
      EXPECT_GE(workspaceBytes(args), blocks.rows * blocks.stride * 2);
      EXPECT_LE(workspaceBytes(args),
                blocks.rows * (blocks.stride * 2 + 4) + (33 << 20));
      EXPECT_LE(blocks.rows, tokens);
    }
}

TEST(LossBlocks, AreFewAndEqual) {
  auto rows = [](int64_t tokens, int64_t vocabulary) {
    return blocksOf(loss(tokens, 64, vocabulary)).rows;
  };
  EXPECT_EQ(rows(8192, 248320), 4096);
  EXPECT_EQ(rows(16384, 248320), 4096);
  EXPECT_EQ(rows(10000, 248320), 2500);
  EXPECT_EQ(rows(8192, 2048), 8192);
  // A prime number of tokens: the last block is shorter.
  EXPECT_EQ(rows(16411, 248320), 4103);
}

TEST(LossBlocks, LaterBlocksAddToTheWeightsGradient) {
  LossBlocks two = blocksOf(loss(8192, 64, 248320));
  LossBlocks one = blocksOf(loss(4096, 64, 248320));
  EXPECT_FALSE(one.dweight(false).adds);
  EXPECT_TRUE(one.dweight(true).adds);
  EXPECT_FALSE(two.dweight(false).adds);
  EXPECT_EQ(two.dweight(true).k, 4096);
}

TEST(GemmSupport, ProductsThatTheLibraryDoesNotHave) {
  GemmArgs args;
  static_cast<BufferType &>(args.a) = matrix(DType::BF16, 64, 32);
  static_cast<BufferType &>(args.b) = matrix(DType::BF16, 64, 48);
  static_cast<BufferType &>(args.c) = matrix(DType::BF16, 32, 48);
  args.transposeA = true;
  EXPECT_EQ(unsupportedReason(args), "");
  args.accumulate = true;
  EXPECT_NE(unsupportedReason(args).find("added to bf16"), std::string::npos);
  args.c.dtype = DType::F32;
  EXPECT_EQ(unsupportedReason(args), "");
  args.c.dtype = DType::F64;
  EXPECT_NE(unsupportedReason(args).find("f64"), std::string::npos);
  EXPECT_NE(unsupportedReason(loss(64, 64, 262145)).find("262145"),
            std::string::npos);
}
