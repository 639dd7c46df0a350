//===- CastTest.cpp - Element conversion ----------------------------------===//

#include "runtime/checkpoint/Cast.h"
#include "TemporaryFolder.h"
#include "qwen/Plan/Contiguous.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace qwen;

template <typename T> static Buffer view(std::vector<T> &data, DType dtype) {
  return {contiguousType(dtype, {int64_t(data.size())}), data.data()};
}

template <typename From, typename To>
static std::vector<To> load(std::vector<From> from, FileDType fileDType,
                            DType dtype) {
  std::vector<To> to(from.size());
  loadElements(fileDType, std::as_bytes(std::span(from)), view(to, dtype));
  return to;
}

TEST(CastTest, EveryHalfSurvivesTheRoundTrip) {
  std::vector<uint16_t> halves;
  for (uint32_t bits = 0; bits < 0x10000; ++bits)
    if ((bits & 0x7c00) != 0x7c00 || (bits & 0x3ff) == 0)
      halves.push_back(uint16_t(bits));
  auto floats = load<uint16_t, float>(halves, FileDType::F16, DType::F32);
  EXPECT_EQ(floats[1], std::ldexp(1.0f, -24));
  EXPECT_EQ(floats[0x3c00], 1.0f);
  std::vector<uint16_t> back(halves.size());
  storeElements(view(floats, DType::F32), 0, int64_t(floats.size()),
                FileDType::F16, {}, reinterpret_cast<std::byte *>(back.data()));
  EXPECT_EQ(halves, back);
}

TEST(CastTest, RoundsOnceToNearestEven) {
  // 1 + 2^-8 lies halfway between two bf16; the last term decides, and is
  // lost when the value passes through float first.
  double half = 1 + std::ldexp(1.0, -8), bit = std::ldexp(1.0, -40);
  auto bf16 = load<double, uint16_t>(
      {half, half + bit, half - bit, -half - bit}, FileDType::F64, DType::BF16);
  EXPECT_EQ(bf16, (std::vector<uint16_t>{0x3f80, 0x3f81, 0x3f80, 0xbf81}));
  auto rounded = load<float, uint16_t>(
      {3.0e38f, std::numeric_limits<float>::max(), 0.0f, -0.0f}, FileDType::F32,
      DType::BF16);
  EXPECT_EQ(rounded[1], 0x7f80) << "beyond the largest bf16";
  EXPECT_EQ(rounded[3], 0x8000);
  std::vector<float> values = {65519.9f, 65520.0f, 1e-8f,
                               std::ldexp(1.0f, -25) * 1.001f};
  std::vector<uint16_t> halves(values.size());
  storeElements(view(values, DType::F32), 0, 4, FileDType::F16, {},
                reinterpret_cast<std::byte *>(halves.data()));
  EXPECT_EQ(halves, (std::vector<uint16_t>{0x7bff, 0x7c00, 0, 1}));
}

TEST(CastTest, RoundsEveryDoubleToTheNearestBF16) {
  std::mt19937_64 random(1);
  std::vector<double> values = {
      0.0,   -0.0,   1e-320,
      1e300, -1e300, std::numeric_limits<double>::infinity()};
  // All exponents of bf16, and bits that nearly or just make a tie.
  for (int i = 0; i < 200'000; ++i) {
    double base =
        std::ldexp(1 + double(random() % 256) / 128, int(random() % 290) - 150);
    double ulp = std::ldexp(1.0, std::max(std::ilogb(base), -126) - 7);
    double part[] = {0, 0.25, 0.5, 0.75, std::ldexp(1.0, -30)};
    values.push_back(
        (random() % 2 ? 1 : -1) *
        (base + ulp * (part[random() % 5] +
                       (random() % 2 ? std::ldexp(1.0, -40) : 0))));
  }
  auto rounded = load<double, uint16_t>(values, FileDType::F64, DType::BF16);
  auto valueOf = [](uint16_t bits) {
    return double(std::bit_cast<float>(uint32_t(bits) << 16));
  };
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits = rounded[i];
    ASSERT_EQ(bits >> 15, std::signbit(values[i])) << values[i];
    double error = std::abs(valueOf(bits) - values[i]);
    if ((bits & 0x7fff) == 0x7f80) {
      // Halfway from the largest bf16 to the next power of two, or more.
      ASSERT_GE(std::abs(values[i]), std::ldexp(511.0, 119)) << values[i];
      continue;
    }
    for (int step : {-1, 1}) {
      if ((bits & 0x7fff) == 0 && step < 0)
        continue;
      auto neighbour = uint16_t(bits + step);
      double other = std::abs(valueOf(neighbour) - values[i]);
      ASSERT_LE(error, other) << values[i];
      if (error == other) {
        ASSERT_EQ(bits & 1, 0) << values[i];
      }
    }
  }
  auto nan = load<double, uint16_t>({std::nan(""), -std::nan("123")},
                                    FileDType::F64, DType::BF16);
  EXPECT_TRUE(std::isnan(valueOf(nan[0])) && std::isnan(valueOf(nan[1])));
}

TEST(CastTest, UnmovedElementsKeepTheirOriginal) {
  std::vector<float> original = {0.1f, 0.2f, 0.3f};
  auto live = load<float, uint16_t>(original, FileDType::F32, DType::BF16);
  live[1] ^= 1;
  std::vector<float> stored(3);
  storeElements(view(live, DType::BF16), 0, 3, FileDType::F32,
                std::as_bytes(std::span(original)),
                reinterpret_cast<std::byte *>(stored.data()));
  EXPECT_EQ(stored[0], original[0]);
  EXPECT_EQ(stored[1], std::bit_cast<float>(uint32_t(live[1]) << 16));
  EXPECT_EQ(stored[2], original[2]);
}

TEST(CastTest, FindsNonFinite) {
  std::vector<float> values(1000, 1.0f);
  EXPECT_EQ(firstNonFinite(view(values, DType::F32)), -1);
  values[700] = std::numeric_limits<float>::infinity();
  values[650] = std::nanf("");
  EXPECT_EQ(firstNonFinite(view(values, DType::F32)), 650);
  std::vector<uint16_t> bf16 = {0x3f80, 0x7f80};
  EXPECT_EQ(firstNonFinite(view(bf16, DType::BF16)), 1);
}

TEST(CastTest, KnowsWhatHoldsWhat) {
  EXPECT_TRUE(holdsExactly(FileDType::F32, DType::BF16));
  EXPECT_FALSE(holdsExactly(FileDType::F16, DType::BF16));
  EXPECT_FALSE(holdsExactly(FileDType::BF16, DType::F32));
  EXPECT_TRUE(holdsExactly(DType::F32, FileDType::F16));
  EXPECT_FALSE(holdsExactly(DType::BF16, FileDType::F16));
  EXPECT_FALSE(holdsExactly(DType::F32, FileDType::F64));
}
