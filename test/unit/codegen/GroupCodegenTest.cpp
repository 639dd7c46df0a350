//===- GroupCodegenTest.cpp - Generated kernels against plain loops -------===//
//
// Each group is compiled, run and compared with the formula in double. Bounds
// count roundings: eps is 2^-24 for f32 and 2^-8 for bf16, the unit roundoffs.
//
//===----------------------------------------------------------------------===//

#include "CompiledGroup.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include <fmt/format.h>

using namespace qwen::test;

namespace {

constexpr double epsF32 = 0x1p-24, epsBf16 = 0x1p-8;

std::vector<float> randomFloats(size_t n, unsigned seed, float scale = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(n);
  for (float &value : values)
    value = normal(generator);
  return values;
}

float bf16ToFloat(uint16_t bits) {
  uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

std::vector<uint16_t> truncated(const std::vector<float> &values) {
  std::vector<uint16_t> out;
  for (float value : values) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    out.push_back(bits >> 16);
  }
  return out;
}

std::unique_ptr<CompiledGroups> compileOrFail(const std::string &text) {
  std::string error;
  auto groups = CompiledGroups::compile(text, error);
  EXPECT_TRUE(groups) << error;
  return groups;
}

/// A group of one unary op over 2 rows of `columns`.
std::string unaryGroup(const std::string &op, const std::string &element,
                       int columns) {
  std::string shape = fmt::format("2x{}x{}", columns, element);
  return fmt::format(R"(
kernel.group_function @f attributes {{domain = array<i64: 2, {0}>,
    rows_per_block = 2 : i64, input_types = [memref<{1}>],
    output_types = [memref<{1}>], column_sums = array<i64>}} {{
^bb0(%x: tensor<{1}>):
  %y = {2} %x : tensor<{1}>
  qwen.yield %y : tensor<{1}>
}})",
                     columns, shape, op);
}

/// Points that matter: around zero, both tails, both infinities, NaN.
std::vector<float> probes() {
  std::vector<float> points = randomFloats(1000, 7, 4);
  for (float x : {0.f, -0.f, 1e-30f, -1e-30f, 19.9f, 20.1f, 87.f, -87.f, 104.f,
                  -104.f, 1e4f, -1e4f, std::numeric_limits<float>::infinity(),
                  -std::numeric_limits<float>::infinity()})
    points.push_back(x);
  return points;
}

struct UnaryCase {
  const char *op;
  std::function<double(double)> formula;
  double ulps;       // error bound in half-ulps of the result
  double floor;      // absolute floor: smallest normal number
  bool positiveOnly; // domain
};

class UnaryTest : public testing::TestWithParam<UnaryCase> {};

// The bounds: each op costs 1 half-ulp; exp and log1p are polynomials whose
// documented error is 2 ulps (4 half-ulps); exp(-|x|) also carries half an ulp
// of argument reduction per unit of |x| log2(e), which vanishes in the sum for
// small results. Subnormal results may be flushed: `floor`.
const UnaryCase unaryCases[] = {
    {"qwen.sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, 8,
     0x1p-126, false},
    {"qwen.softplus",
     [](double x) { return x > 20 ? x : std::log1p(std::exp(x)); }, 12,
     0x1p-126, false},
    {"math.exp", [](double x) { return std::exp(x); }, 6, 0x1p-126, false},
    {"math.log1p", [](double x) { return std::log1p(x); }, 6, 0x1p-126, true},
    {"math.rsqrt", [](double x) { return 1 / std::sqrt(x); }, 3, 0, true},
    {"math.sqrt", [](double x) { return std::sqrt(x); }, 1, 0, true},
    {"math.tanh", [](double x) { return std::tanh(x); }, 12, 0x1p-126, false},
};

TEST_P(UnaryTest, MatchesTheFormula) {
  std::vector<float> in;
  for (float x : probes())
    in.push_back(GetParam().positiveOnly ? std::abs(x) + 1e-3f : x);
  if (in.size() % 2)
    in.push_back(1);
  int columns = in.size() / 2;
  auto groups = compileOrFail(unaryGroup(GetParam().op, "f32", columns));
  ASSERT_TRUE(groups);
  std::vector<float> out(in.size());
  groups->call("f", {in.data(), out.data()}, 0, 2);
  for (size_t i = 0; i < in.size(); ++i) {
    double expected = GetParam().formula(in[i]);
    if (std::isinf(static_cast<float>(expected))) {
      EXPECT_EQ(out[i], static_cast<float>(expected)) << "x = " << in[i];
      continue;
    }
    double bound =
        GetParam().ulps * epsF32 * std::abs(expected) + GetParam().floor;
    EXPECT_NEAR(out[i], expected, bound) << "x = " << in[i];
  }
}

TEST_P(UnaryTest, KeepsNan) {
  std::vector<float> in(10, std::numeric_limits<float>::quiet_NaN()), out(10);
  auto groups = compileOrFail(unaryGroup(GetParam().op, "f32", 5));
  ASSERT_TRUE(groups);
  groups->call("f", {in.data(), out.data()}, 0, 2);
  for (float y : out)
    EXPECT_TRUE(std::isnan(y));
}

TEST_P(UnaryTest, DoublePrecision) {
  std::vector<double> in, out(38);
  for (int i = 0; i < 38; ++i)
    in.push_back(GetParam().positiveOnly ? 0.1 + i : (i - 19) * 0.7);
  auto groups = compileOrFail(unaryGroup(GetParam().op, "f64", 19));
  ASSERT_TRUE(groups);
  groups->call("f", {in.data(), out.data()}, 0, 2);
  for (size_t i = 0; i < in.size(); ++i) {
    double expected = GetParam().formula(in[i]);
    EXPECT_NEAR(out[i], expected, 16 * 0x1p-53 * std::abs(expected))
        << "x = " << in[i];
  }
}

// Every function that has a derivative rule, and others of the C library. The
// library's own error is below 2 ulps; a correction costs two more operations.
TEST(GroupCodegen, DoubleFunctionsOfTheLibrary) {
  using Function = double (*)(double);
  const std::pair<const char *, Function> functions[] = {
      {"math.erf", [](double x) { return std::erf(x); }},
      {"math.expm1", [](double x) { return std::expm1(x); }},
      {"math.log", [](double x) { return std::log(std::abs(x)); }},
      {"math.sin", [](double x) { return std::sin(x); }},
      {"math.cos", [](double x) { return std::cos(x); }},
      {"math.atan", [](double x) { return std::atan(x); }}};
  for (auto [op, function] : functions) {
    std::vector<double> in, out(38);
    for (int i = 0; i < 38; ++i)
      in.push_back((i - 19) * 0.7 + 1e-9);
    if (std::string(op) == "math.log")
      for (double &x : in)
        x = std::abs(x);
    auto groups = compileOrFail(unaryGroup(op, "f64", 19));
    ASSERT_TRUE(groups) << op;
    groups->call("f", {in.data(), out.data()}, 0, 2);
    for (size_t i = 0; i < in.size(); ++i) {
      double expected = function(in[i]);
      EXPECT_NEAR(out[i], expected, 8 * 0x1p-53 * std::abs(expected))
          << op << " x = " << in[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, UnaryTest, testing::ValuesIn(unaryCases),
                         [](const auto &info) {
                           std::string name = info.param.op;
                           return name.substr(name.find('.') + 1);
                         });

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// sum = x + r and y = sum / rms(sum) (1 + w), bf16, as at a residual border.
std::string addNormGroup(int rows, int columns) {
  return fmt::format(R"(
kernel.group_function @add_norm attributes {{domain = array<i64: {0}, {1}>,
    rows_per_block = 4 : i64,
    input_types = [memref<{0}x{1}xbf16>, memref<{0}x{1}xbf16, strided<[{2}, 1]>>,
                   memref<{1}xbf16>],
    output_types = [memref<{0}x{1}xbf16>, memref<{0}x{1}xbf16>],
    column_sums = array<i64>}} {{
^bb0(%x: tensor<{0}x{1}xbf16>, %r: tensor<{0}x{1}xbf16>, %w: tensor<{1}xbf16>):
  %xf = arith.extf %x : tensor<{0}x{1}xbf16> to tensor<{0}x{1}xf32>
  %rf = arith.extf %r : tensor<{0}x{1}xbf16> to tensor<{0}x{1}xf32>
  %s = arith.addf %xf, %rf : tensor<{0}x{1}xf32>
  %sum = arith.truncf %s : tensor<{0}x{1}xf32> to tensor<{0}x{1}xbf16>
  %sf = arith.extf %sum : tensor<{0}x{1}xbf16> to tensor<{0}x{1}xf32>
  %sq = arith.mulf %sf, %sf : tensor<{0}x{1}xf32>
  %ss = qwen.reduce_sum %sq dims = [1] : tensor<{0}x{1}xf32> -> tensor<{0}xf32>
  %n = arith.constant dense<{1}.0> : tensor<{0}xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<{0}xf32>
  %m = arith.divf %ss, %n : tensor<{0}xf32>
  %me = arith.addf %m, %eps : tensor<{0}xf32>
  %rs = math.rsqrt %me : tensor<{0}xf32>
  %rb = qwen.broadcast %rs dims = [0] : tensor<{0}xf32> -> tensor<{0}x{1}xf32>
  %xn = arith.mulf %sf, %rb : tensor<{0}x{1}xf32>
  %wf = arith.extf %w : tensor<{1}xbf16> to tensor<{1}xf32>
  %one = arith.constant dense<1.0> : tensor<{1}xf32>
  %w1 = arith.addf %wf, %one : tensor<{1}xf32>
  %wb = qwen.broadcast %w1 dims = [1] : tensor<{1}xf32> -> tensor<{0}x{1}xf32>
  %yf = arith.mulf %xn, %wb : tensor<{0}x{1}xf32>
  %y = arith.truncf %yf : tensor<{0}x{1}xf32> to tensor<{0}x{1}xbf16>
  qwen.yield %sum, %y : tensor<{0}x{1}xbf16>, tensor<{0}x{1}xbf16>
}})",
                     rows, columns, columns + 3);
}

class AddNormTest : public testing::TestWithParam<int> {};

TEST_P(AddNormTest, MatchesTheFormula) {
  int rows = 6, columns = GetParam(), stride = columns + 3;
  auto groups = compileOrFail(addNormGroup(rows, columns));
  ASSERT_TRUE(groups);
  auto x = truncated(randomFloats(rows * columns, 1));
  auto r = truncated(randomFloats(rows * stride, 2));
  auto w = truncated(randomFloats(columns, 3, 0.1));
  std::vector<uint16_t> sum(rows * columns, 0xffff), y(rows * columns, 0xffff);
  // The second half alone must not touch the first.
  groups->call("add_norm", {x.data(), r.data(), w.data(), sum.data(), y.data()},
               3, 6);
  for (int i = 0; i < 3 * columns; ++i)
    ASSERT_EQ(y[i], 0xffff);
  groups->call("add_norm", {x.data(), r.data(), w.data(), sum.data(), y.data()},
               0, 3);
  for (int row = 0; row < rows; ++row) {
    double squares = 0;
    for (int c = 0; c < columns; ++c) {
      double exact = double(bf16ToFloat(x[row * columns + c])) +
                     bf16ToFloat(r[row * stride + c]);
      double stored = bf16ToFloat(sum[row * columns + c]);
      EXPECT_NEAR(stored, exact, epsBf16 * std::abs(exact));
      squares += stored * stored;
    }
    double scale = 1 / std::sqrt(squares / columns + 1e-6);
    for (int c = 0; c < columns; ++c) {
      double expected = bf16ToFloat(sum[row * columns + c]) * scale *
                        (1 + double(bf16ToFloat(w[c])));
      // One rounding to bf16 after a few f32 roundings and a row sum.
      double bound =
          (epsBf16 + (columns / 16 + 12) * epsF32) * std::abs(expected) * 1.001;
      EXPECT_NEAR(bf16ToFloat(y[row * columns + c]), expected, bound);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Columns, AddNormTest,
                         testing::Values(1, 5, 15, 16, 17, 48, 131));

TEST(GroupCodegen, SameSourceGivesTheSameBytes) {
  auto first = compileOrFail(addNormGroup(6, 48));
  auto second = compileOrFail(addNormGroup(6, 48));
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->object(), second->object());
}

//===----------------------------------------------------------------------===//
// Rotation
//===----------------------------------------------------------------------===//

std::string ropeGroup(bool inverse) {
  return fmt::format(R"(
kernel.group_function @rope attributes {{domain = array<i64: 3, 2, 50>,
    rows_per_block = 4 : i64,
    input_types = [memref<3x2x50xf32>, memref<3x36xf32>],
    output_types = [memref<3x2x50xf32, strided<[200, 60, 1]>>],
    column_sums = array<i64>}} {{
^bb0(%x: tensor<3x2x50xf32>, %a: tensor<3x36xf32>):
  %d = arith.addf %x, %x : tensor<3x2x50xf32>
  %r = qwen.rope %d, %a {0} : tensor<3x2x50xf32>, tensor<3x36xf32>
  %y = arith.negf %r : tensor<3x2x50xf32>
  qwen.yield %y : tensor<3x2x50xf32>
}})",
                     inverse ? "{inverse}" : "");
}

TEST(GroupCodegen, RotatesPairsAndPassesTheRest) {
  for (bool inverse : {false, true}) {
    auto groups = compileOrFail(ropeGroup(inverse));
    ASSERT_TRUE(groups);
    auto x = randomFloats(3 * 2 * 50, 4);
    std::vector<float> angles(3 * 36), y(3 * 200, NAN);
    for (int t = 0; t < 3; ++t)
      for (int j = 0; j < 18; ++j) {
        angles[t * 36 + j] = std::cos(0.3f * t * j);
        angles[t * 36 + 18 + j] = std::sin(0.3f * t * j);
      }
    groups->call("rope", {x.data(), angles.data(), y.data()}, 0, 6);
    for (int t = 0; t < 3; ++t)
      for (int h = 0; h < 2; ++h)
        for (int j = 0; j < 50; ++j) {
          auto at = [&](int c) { return 2.0 * x[(t * 2 + h) * 50 + c]; };
          double expected = at(j), size = std::abs(at(j));
          if (j < 36) {
            int pair = j % 18;
            double c = angles[t * 36 + pair];
            double s = angles[t * 36 + 18 + pair] * (inverse ? -1 : 1);
            expected = j < 18 ? at(pair) * c - at(pair + 18) * s
                              : at(pair + 18) * c + at(pair) * s;
            size = std::abs(at(pair)) + std::abs(at(pair + 18));
          }
          EXPECT_NEAR(y[t * 200 + h * 60 + j], -expected, 3 * epsF32 * size);
        }
  }
}

//===----------------------------------------------------------------------===//
// Column sums
//===----------------------------------------------------------------------===//

TEST(GroupCodegen, ColumnSumsOfABlockGoToItsPartials) {
  auto groups = compileOrFail(R"(
kernel.group_function @sums attributes {domain = array<i64: 4, 2, 21>,
    rows_per_block = 4 : i64, input_types = [memref<4x2x21xf32>],
    output_types = [memref<4x2x21xf32>, memref<21xf32>, memref<21xf32>],
    column_sums = array<i64: 1, 2>} {
^bb0(%x: tensor<4x2x21xf32>):
  %y = arith.negf %x : tensor<4x2x21xf32>
  %z = arith.mulf %x, %x : tensor<4x2x21xf32>
  %s = qwen.reduce_sum %y dims = [0, 1] : tensor<4x2x21xf32> -> tensor<21xf32>
  %q = qwen.reduce_sum %z dims = [0, 1] : tensor<4x2x21xf32> -> tensor<21xf32>
  qwen.yield %y, %s, %q : tensor<4x2x21xf32>, tensor<21xf32>, tensor<21xf32>
})");
  ASSERT_TRUE(groups);
  auto x = randomFloats(4 * 2 * 21, 5);
  std::vector<float> y(x.size()), partials(42, NAN);
  groups->call("sums", {x.data(), y.data(), nullptr, nullptr}, 4, 8,
               partials.data());
  for (int c = 0; c < 21; ++c) {
    float sum = 0, squares = 0;
    for (int row = 4; row < 8; ++row) {
      sum += -x[row * 21 + c];
      squares += x[row * 21 + c] * x[row * 21 + c];
    }
    EXPECT_EQ(partials[c], sum);
    EXPECT_EQ(partials[21 + c], squares);
  }
}

//===----------------------------------------------------------------------===//
// Rank-1 spaces and refusals
//===----------------------------------------------------------------------===//

TEST(GroupCodegen, RankOneSpaceHasOneElementARow) {
  auto groups = compileOrFail(R"(
kernel.group_function @fill attributes {domain = array<i64: 5>,
    rows_per_block = 4 : i64, input_types = [memref<f32>],
    output_types = [memref<5xf32>], column_sums = array<i64>} {
^bb0(%s: tensor<f32>):
  %b = qwen.broadcast %s dims = [] : tensor<f32> -> tensor<5xf32>
  qwen.yield %b : tensor<5xf32>
})");
  ASSERT_TRUE(groups);
  float scale = 0.25;
  std::vector<float> out(5, NAN);
  groups->call("fill", {&scale, out.data()}, 0, 5);
  EXPECT_EQ(out, std::vector<float>(5, 0.25f));
}

TEST(GroupCodegen, RefusesWhatItCannotExpress) {
  std::string error;
  EXPECT_FALSE(CompiledGroups::compile(R"(
kernel.group_function @f attributes {domain = array<i64: 2, 3, 4>,
    rows_per_block = 2 : i64, input_types = [memref<2x3x4xf32>],
    output_types = [memref<2xf32>], column_sums = array<i64>} {
^bb0(%x: tensor<2x3x4xf32>):
  %y = qwen.reduce_sum %x dims = [1, 2] : tensor<2x3x4xf32> -> tensor<2xf32>
  qwen.yield %y : tensor<2xf32>
})",
                                       error));
  EXPECT_NE(error.find("sums over the last dimension alone"), std::string::npos)
      << error;
}

} // namespace
