//===- TokenKernelsTest.cpp - Embedding, angles, fill, copy ----*- C++ -*-===//
//
// Kernels that move or form one row a token.
//
//===----------------------------------------------------------------------===//

#include "ParityTesting.h"

#include "qwen/Support/BFloat16.h"
#include "runtime/kernels/cpu/VectorMath.h"

#include <cmath>
#include <limits>

using namespace qwen;
using namespace qwen::parity;

TEST(Embedding, GathersRows) {
  std::mt19937_64 random(1);
  for (DType dtype : storageTypes)
    for (Spacing spacing : {Spacing::Dense, Spacing::Sliced}) {
      Tensor table(dtype, {11, 6}, spacing), out(dtype, {40, 6}, spacing);
      Tensor ids(DType::I32, {40});
      table.uniform(random, -1, 1);
      randomIds(ids, random, 11);
      launchKernel(EmbeddingArgs{table, ids, out});
      for (int64_t i = 0; i < out.size(); ++i)
        EXPECT_EQ(out.get(i), table.get(int64_t(ids.get(i / 6)) * 6 + i % 6));
      EXPECT_TRUE(out.gapsUntouched());
    }
}

TEST(Embedding, IdsOutsideStayInsideMemory) {
  Tensor table(DType::F32, {4, 3}), out(DType::F32, {2, 3});
  Tensor ids(DType::I32, {2});
  ids.set(0, -5);
  ids.set(1, 4);
  out.fill(9);
  launchKernel(EmbeddingArgs{table, ids, out});
  EXPECT_EQ(out.values(), Values(6, 0.0));
}

TEST(EmbeddingGrad, SumsInTokenOrder) {
  std::mt19937_64 random(2);
  for (DType dtype : storageTypes)
    for (bool accumulate : {false, true}) {
      Tensor dout(dtype, {300, 70}, Spacing::Sliced);
      Tensor dtable(accumulationType(dtype), {7, 70}, Spacing::Sliced);
      Tensor ids(DType::I32, {300});
      dout.uniform(random, -1, 1);
      dtable.uniform(random, -1, 1);
      randomIds(ids, random, 6);
      // The sum in the kernel's type and order: equal to the bit.
      Tensor expected = dtable;
      if (!accumulate)
        expected.fill(0);
      for (int64_t t = 0; t < 300; ++t)
        for (int64_t i = 0; i < 70; ++i) {
          int64_t at = int64_t(ids.get(t)) * 70 + i;
          expected.set(at, expected.get(at) + dout.get(t * 70 + i));
        }
      for (int threads : {1, 2, 3}) {
        setThreads(threads);
        Tensor result = dtable;
        launchKernel(EmbeddingGradArgs{dout, ids, result, accumulate});
        EXPECT_EQ(result.bits(), expected.bits());
        EXPECT_TRUE(result.gapsUntouched());
      }
    }
}

/// A table of 11 rows of 6 elements from element 10 on of a sequence that four
/// ranks hold by 21 elements each: rows lie in two shards, and something is
/// before and behind the table.
struct TableInShards {
  static constexpr int64_t rows = 11, width = 6, offset = 10, held = 21;
  static constexpr int ranks = 4;

  explicit TableInShards(DType dtype) {
    for (int rank = 0; rank < ranks; ++rank)
      shards.emplace_back(dtype, std::vector<int64_t>{held});
  }
  /// `begin` of a rank.
  static int64_t beginOf(int rank) { return offset - rank * held; }
  double get(int64_t i) const {
    return shards[size_t((offset + i) / held)].get((offset + i) % held);
  }

  std::vector<Tensor> shards;
};

/// Every element of a row comes from one rank, the others have zero there.
TEST(EmbeddingShard, RanksHaveTheRowsTogether) {
  std::mt19937_64 random(1);
  for (DType dtype : storageTypes) {
    TableInShards table(dtype);
    for (Tensor &shard : table.shards)
      shard.uniform(random, 1, 2);
    Tensor ids(DType::I32, {40});
    randomIds(ids, random, table.rows);
    ids.set(3, -1);
    ids.set(5, double(table.rows));
    std::vector<Values> parts;
    for (int rank = 0; rank < table.ranks; ++rank) {
      Tensor out(accumulationType(dtype), {40, table.width}, Spacing::Sliced);
      launchKernel(EmbeddingShardArgs{table.shards[size_t(rank)], ids, out,
                                      table.beginOf(rank), table.rows});
      EXPECT_TRUE(out.gapsUntouched());
      parts.push_back(out.values());
    }
    for (int64_t i = 0; i < 40 * table.width; ++i) {
      int64_t id = int64_t(ids.get(i / table.width));
      double sum = 0;
      int nonzero = 0;
      for (const Values &part : parts) {
        sum += part[size_t(i)];
        nonzero += part[size_t(i)] != 0;
      }
      bool known = id >= 0 && id < table.rows;
      EXPECT_EQ(nonzero, known);
      EXPECT_EQ(sum, known ? table.get(id * table.width + i % table.width) : 0);
    }
  }
}

/// The shards together are what embedding_grad makes, rounded once; what is
/// beside the table in a shard becomes zero or stays.
TEST(EmbeddingGradShard, IsAPartOfTheGradient) {
  std::mt19937_64 random(2);
  for (DType dtype : storageTypes)
    for (bool narrow : {false, true})
      for (bool accumulate : {false, true}) {
        DType wide = accumulationType(dtype);
        if (narrow && wide == DType::F64)
          continue;
        TableInShards table(narrow ? DType::BF16 : wide);
        Tensor dout(dtype, {300, table.width}, Spacing::Sliced);
        Tensor ids(DType::I32, {300});
        dout.uniform(random, -1, 1);
        randomIds(ids, random, table.rows - 1);
        ids.set(7, -1);
        ids.set(9, double(table.rows));
        for (Tensor &shard : table.shards)
          shard.uniform(random, -1, 1);
        TableInShards before = table;
        Tensor whole(wide, {table.rows, table.width});
        for (int64_t i = 0; i < whole.size(); ++i)
          whole.set(i, table.get(i));
        launchKernel(EmbeddingGradArgs{dout, ids, whole, accumulate});
        for (int threads : {1, 2, 3}) {
          setThreads(threads);
          table = before;
          for (int rank = 0; rank < table.ranks; ++rank)
            launchKernel(EmbeddingGradShardArgs{
                dout, ids, table.shards[size_t(rank)], table.beginOf(rank),
                table.rows, accumulate});
          for (int64_t i = 0; i < whole.size(); ++i)
            EXPECT_EQ(table.get(i),
                      narrow ? toFloat(toBFloat16(float(whole.get(i))))
                             : whole.get(i));
          int64_t end = table.ranks * table.held - table.offset;
          for (int64_t i = -table.offset; i < end; ++i) {
            if (i < 0 || i >= whole.size()) {
              EXPECT_EQ(table.get(i), accumulate ? before.get(i) : 0);
            }
          }
        }
      }
}

TEST(RopeAngles, AreCosinesThenSines) {
  constexpr int64_t tokens = 300, width = 64;
  constexpr double theta = 1e7;
  Tensor positions(DType::I32, {tokens});
  for (int64_t t = 0; t < tokens; ++t)
    positions.set(t, t < 200 ? t : (t - 200) * 2621);
  for (DType dtype : {DType::F32, DType::F64}) {
    Tensor angles(dtype, {tokens, width}, Spacing::Sliced);
    launchKernel(RopeAnglesArgs{positions, angles, theta});
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t j = 0; j < width / 2; ++j) {
        double angle = positions.get(t) * std::pow(theta, -2.0 * j / width);
        // Frequency (exponent, power, inverse) and angle are rounded in turn;
        // an exponent's rounding grows by log(theta).
        double bound = unitRoundoff(dtype) *
                       ((4 + std::log(theta)) * std::fabs(angle) + 1);
        EXPECT_NEAR(angles.get(t * width + j), std::cos(angle), bound);
        EXPECT_NEAR(angles.get(t * width + width / 2 + j), std::sin(angle),
                    bound);
      }
    EXPECT_TRUE(angles.gapsUntouched());
  }
}

TEST(Fill, TakesAnyTypeAndStrides) {
  for (DType dtype : {DType::F32, DType::BF16, DType::F64, DType::I32})
    for (Spacing spacing : {Spacing::Dense, Spacing::Sliced}) {
      Tensor out(dtype, {70, 5, 300}, spacing);
      launchKernel(FillArgs{out, 3});
      EXPECT_EQ(out.values(), Values(out.size(), 3.0));
      EXPECT_TRUE(out.gapsUntouched());
    }
  Tensor scalar(DType::F32, {});
  launchKernel(FillArgs{scalar, 2});
  EXPECT_EQ(scalar.get(0), 2);
}

TEST(Copy, TakesAnyTypeAndStrides) {
  std::mt19937_64 random(3);
  for (DType dtype : {DType::F32, DType::BF16, DType::F64, DType::I32})
    for (Spacing from : {Spacing::Dense, Spacing::Sliced})
      for (Spacing to : {Spacing::Dense, Spacing::Sliced}) {
        Tensor in(dtype, {7, 9, 33}, from), out(dtype, {7, 9, 33}, to);
        in.uniform(random, -1000, 1000);
        launchKernel(CopyArgs{in, out});
        EXPECT_EQ(out.bits(), in.bits());
        EXPECT_TRUE(out.gapsUntouched());
      }
}

TEST(Copy, Transposes) {
  std::mt19937_64 random(4);
  Tensor in(DType::F32, {50, 40}), out(DType::F32, {40, 50});
  in.uniform(random, -1, 1);
  CopyArgs args{in, out};
  args.in.shape = {40, 50};
  args.in.strides = {1, 40};
  launchKernel(args);
  for (int64_t i = 0; i < 50; ++i)
    for (int64_t j = 0; j < 40; ++j)
      EXPECT_EQ(out.get(j * 50 + i), in.get(i * 40 + j));
}

TEST(BFloat16, RoundsToNearestEven) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 100000; ++i) {
    float x = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isfinite(x))
      continue;
    BFloat16 y = toBFloat16(x);
    double error = std::fabs(double(x) - double(toFloat(y)));
    for (int neighbour : {-1, 1}) {
      float other = toFloat({static_cast<uint16_t>(y.bits + neighbour)});
      if (!std::isfinite(other) || !std::isfinite(toFloat(y)))
        continue;
      double otherError = std::fabs(double(x) - double(other));
      EXPECT_TRUE(error < otherError ||
                  (error == otherError && y.bits % 2 == 0))
          << x;
    }
  }
  EXPECT_EQ(toBFloat16(3.4e38f).bits, 0x7f80);
  EXPECT_EQ(toBFloat16(-std::numeric_limits<float>::infinity()).bits, 0xff80);
  // Every NaN stays one, those whose payload would be rounded away too.
  for (uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffc00000u}) {
    float back = toFloat(toBFloat16(std::bit_cast<float>(bits)));
    EXPECT_TRUE(std::isnan(back));
    EXPECT_EQ(std::signbit(back), bits >> 31 != 0);
  }
}

TEST(VectorMath, ExponentialIsWithinTwoRoundings) {
  for (int i = -880000; i < 885000; i += 7) {
    float x = static_cast<float>(i) * 1e-4f;
    double exact = std::exp(double(x));
    // Below the normal numbers the bound is half a denormal step.
    EXPECT_NEAR(cpu::exponential(x), exact,
                3 * unitRoundoff(DType::F32) * exact + 0x1p-149)
        << x;
  }
  constexpr float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(cpu::exponential(0.0f), 1.0f);
  EXPECT_EQ(cpu::exponential(-1e4f), 0.0f);
  EXPECT_EQ(cpu::exponential(-infinity), 0.0f);
  EXPECT_EQ(cpu::exponential(90.0f), infinity);
  EXPECT_EQ(cpu::exponential(infinity), infinity);
  EXPECT_TRUE(std::isnan(cpu::exponential(std::nanf(""))));
}
