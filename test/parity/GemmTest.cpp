//===- GemmTest.cpp - Matrix products against chains of sums ---*- C++ -*-===//
//
// Every element is one chain of fused multiply-adds, so the reference is exact
// to the bit; parity in double bounds the chain itself.
//
//===----------------------------------------------------------------------===//

#include "ParityTesting.h"

#include "runtime/kernels/cpu/BlockProduct.h"

#include <cmath>

using namespace qwen;
using namespace qwen::parity;

namespace {

struct GemmCase {
  int64_t m, n, k;
  bool transposeA, transposeB, accumulate = false;
  Tensor a, b, c;

  GemmCase(int64_t m, int64_t n, int64_t k, bool ta, bool tb, DType storage,
           DType result, Spacing spacing = Spacing::Dense)
      : m(m), n(n), k(k), transposeA(ta), transposeB(tb),
        a(storage, ta ? std::vector{k, m} : std::vector{m, k}, spacing),
        b(storage, tb ? std::vector{n, k} : std::vector{k, n}, spacing),
        c(result, {m, n}, spacing) {
    std::mt19937_64 random(m * 1000 + n * 100 + k);
    a.uniform(random, -1, 1);
    b.uniform(random, -1, 1);
    c.uniform(random, -1, 1);
  }
  int64_t left(int64_t i, int64_t l) const {
    return transposeA ? l * m + i : i * k + l;
  }
  int64_t right(int64_t l, int64_t j) const {
    return transposeB ? j * k + l : l * n + j;
  }
  void run() {
    launchKernel(GemmArgs{a, b, {}, c, transposeA, transposeB, accumulate});
  }
  /// The chain in T, rounded to the type of c.
  template <typename T> Values chain() const {
    Tensor rounded(c.dtype(), {m, n});
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        T sum = accumulate ? static_cast<T>(c.get(i * n + j)) : T(0);
        for (int64_t l = 0; l < k; ++l)
          sum = std::fma(static_cast<T>(a.get(left(i, l))),
                         static_cast<T>(b.get(right(l, j))), sum);
        rounded.set(i * n + j, sum);
      }
    return rounded.values();
  }
  Values chainOfType() const {
    return a.dtype() == DType::F64 ? chain<double>() : chain<float>();
  }
};

/// Sizes around the register tile, the panel and the packed block.
const int64_t sizes[][3] = {{1, 1, 1},    {5, 7, 3},     {12, 32, 16},
                            {13, 33, 17}, {64, 16, 300}, {65, 129, 257},
                            {130, 48, 9}, {3, 300, 40},  {200, 3, 40}};

} // namespace

TEST(Gemm, IsAChainOfFusedSums) {
  for (auto [m, n, k] : sizes)
    for (bool ta : {false, true})
      for (bool tb : {false, true})
        for (auto [storage, result] : {std::pair{DType::F32, DType::F32},
                                       {DType::F64, DType::F64},
                                       {DType::BF16, DType::BF16},
                                       {DType::BF16, DType::F32}}) {
          GemmCase c(m, n, k, ta, tb, storage, result);
          for (bool accumulate : {false, true}) {
            c.accumulate = accumulate;
            Values chain = c.chainOfType();
            c.run();
            EXPECT_EQ(c.c.values(), chain) << m << "x" << n << "x" << k << " "
                                           << ta << tb << dtypeName(storage);
          }
        }
}

TEST(Gemm, IsNearTheExactProduct) {
  for (DType dtype : storageTypes) {
    GemmCase c(70, 90, 700, false, true, dtype, dtype);
    c.run();
    Values exact(c.m * c.n);
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t j = 0; j < c.n; ++j)
        for (int64_t l = 0; l < c.k; ++l)
          exact[i * c.n + j] += c.a.get(c.left(i, l)) * c.b.get(c.right(l, j));
    expectClose(c.c, exact, sumTolerance(dtype, double(c.k)), "c");
  }
}

TEST(Gemm, TakesSlicesOfWiderRows) {
  for (DType dtype : storageTypes)
    for (bool transpose : {false, true}) {
      GemmCase c(37, 50, 77, transpose, transpose, dtype, dtype,
                 Spacing::Sliced);
      Values chain = c.chainOfType();
      c.run();
      EXPECT_EQ(c.c.values(), chain);
      EXPECT_TRUE(c.c.gapsUntouched());
    }
}

TEST(Gemm, AnAddendIsWhereTheChainsStart) {
  for (DType dtype : storageTypes)
    for (Spacing spacing : {Spacing::Dense, Spacing::Sliced}) {
      GemmCase c(37, 50, 77, false, true, dtype, dtype, spacing);
      Tensor addend(dtype, {c.m, c.n}, spacing);
      addend.setValues(c.c.values());
      c.accumulate = true;
      Values chain = c.chainOfType(); // c holds the addend here
      c.c.setValues(Values(c.m * c.n, 3.0));
      launchKernel(GemmArgs{c.a, c.b, {addend}, c.c, false, true});
      EXPECT_EQ(c.c.values(), chain);
      EXPECT_TRUE(c.c.gapsUntouched());
    }
}

TEST(Gemm, RowsDoNotDependOnTheirPlace) {
  for (DType dtype : storageTypes) {
    GemmCase c(150, 70, 100, false, true, dtype, dtype);
    for (int64_t i = 1; i < c.m; ++i)
      for (int64_t l = 0; l < c.k; ++l)
        c.a.set(i * c.k + l, c.a.get(l));
    c.run();
    for (int64_t i = 1; i < c.m; ++i)
      ASSERT_EQ(c.c.bits(i, i + 1), c.c.bits(0, 1)) << "row " << i;
  }
}

TEST(Gemm, ZeroRowsAddNothingToAWeightGradient) {
  // dW = dy^T x, where some tokens have no gradient: their x is of no matter.
  for (DType dtype : storageTypes) {
    DType wide = accumulationType(dtype);
    GemmCase first(40, 30, 200, true, false, dtype, wide);
    GemmCase second(40, 30, 200, true, false, dtype, wide);
    for (int64_t token = 50; token < 120; ++token) {
      for (int64_t i = 0; i < 40; ++i) {
        first.a.set(token * 40 + i, 0);
        second.a.set(token * 40 + i, 0);
      }
      for (int64_t j = 0; j < 30; ++j)
        second.b.set(token * 30 + j, 1000 + j);
    }
    first.run();
    second.run();
    EXPECT_EQ(first.c.bits(), second.c.bits());
  }
}

TEST(Gemm, AccumulatedMicroBatchesEqualOneBatch) {
  GemmCase whole(40, 30, 512, true, false, DType::F32, DType::F32);
  GemmCase part(40, 30, 200, true, false, DType::F32, DType::F32);
  GemmCase rest(40, 30, 312, true, false, DType::F32, DType::F32);
  for (GemmCase *c : {&part, &rest}) {
    int64_t offset = c == &part ? 0 : 200;
    for (int64_t i = 0; i < c->a.size(); ++i)
      c->a.set(i, whole.a.get(offset * 40 + i));
    for (int64_t i = 0; i < c->b.size(); ++i)
      c->b.set(i, whole.b.get(offset * 30 + i));
  }
  whole.run();
  part.run();
  rest.c.setValues(part.c.values());
  rest.accumulate = true;
  rest.run();
  EXPECT_EQ(rest.c.bits(), whole.c.bits());
}

TEST(Gemm, ThreadCountDoesNotMatter) {
  GemmCase c(300, 200, 300, false, true, DType::F32, DType::F32);
  setThreads(1);
  c.run();
  auto one = c.c.bits();
  for (int threads : {2, 3}) {
    setThreads(threads);
    c.run();
    EXPECT_EQ(c.c.bits(), one);
  }
}

TEST(BlockProduct, InstructionSetsGiveTheSameBits) {
  if (cpu::blockProductFunction<float>() ==
      static_cast<cpu::BlockProductFunction<float>>(cpu::blockProductAvx2))
    GTEST_SKIP() << "the processor has no AVX-512";
  constexpr int64_t m = 29, n = 48, k = 31;
  std::mt19937_64 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> a(m * k), b(k * n), c(m * n);
  for (auto *x : {&a, &b, &c})
    for (float &value : *x)
      value = uniform(random);
  for (auto update :
       {cpu::Update::Set, cpu::Update::Add, cpu::Update::Subtract}) {
    std::vector<float> narrow = c, wide = c;
    cpu::blockProductAvx2(
        m, n, k, {a.data(), k, 1, b.data(), n, narrow.data(), n}, update);
    cpu::blockProductAvx512(
        m, n, k, {a.data(), k, 1, b.data(), n, wide.data(), n}, update);
    EXPECT_EQ(narrow, wide);
  }
}
