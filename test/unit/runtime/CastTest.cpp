//===- CastTest.cpp - Element conversion ----------------------------------===//

#include "runtime/checkpoint/Cast.h"
#include "TemporaryFolder.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace qwen;

template <typename T> static Buffer view(std::vector<T> &data, DType dtype) {
  Buffer buffer;
  buffer.dtype = dtype;
  buffer.rank = 1;
  buffer.shape[0] = int64_t(data.size());
  buffer.strides[0] = 1;
  buffer.data = data.data();
  return buffer;
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
