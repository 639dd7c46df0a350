//===- Cast.cpp - Element types on disk and in memory ---------------------===//

#include "runtime/checkpoint/Cast.h"

#include "runtime/support/VectorLevels.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

using namespace qwen;

/// `value` as a float rounded to odd: a later rounding to fewer bits then gives
/// what one rounding of `value` would.
/// NaN stays one. Without branches, so that loops of it become vector code.
static inline uint32_t roundToOdd(double value) {
  float nearest = static_cast<float>(value);
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  bits -= std::abs(double(nearest)) > std::abs(value) ? 1 : 0;
  return bits | (double(nearest) != value ? 1 : 0);
}

static inline uint16_t toBF16(double value) {
  uint32_t bits = roundToOdd(value);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  // The sum could carry out of the exponent of a NaN.
  return static_cast<uint16_t>(value != value ? (bits >> 16) | 0x40 : rounded);
}

/// Random weights on their way to a parameter: this conversion is as long as
/// making them unless it is vector code.
QWEN_FOR_EACH_LEVEL
static void convertBlock(const double *from, uint16_t *to, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = toBF16(from[i]);
}

static void convert(const double *from, uint16_t *to, int64_t count) {
  constexpr int64_t block = 4096;
#pragma omp parallel for schedule(static) if (count > 1 << 16)
  for (int64_t first = 0; first < count; first += block)
    convertBlock(from + first, to + first, std::min(block, count - first));
}

static double fromBF16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}

static double fromF16(uint16_t bits) {
  int exponent = (bits >> 10) & 31;
  int mantissa = bits & 1023;
  double magnitude;
  if (exponent == 31)
    magnitude = mantissa ? std::numeric_limits<double>::quiet_NaN()
                         : std::numeric_limits<double>::infinity();
  else if (exponent == 0)
    magnitude = std::ldexp(mantissa, -24);
  else
    magnitude = std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

static uint16_t toF16(double value) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  double magnitude = std::abs(value);
  if (std::isnan(value))
    return sign | 0x7e00;
  // Halfway between the largest half, 65504, and what would follow it.
  if (magnitude >= 65520)
    return sign | 0x7c00;
  if (magnitude == 0)
    return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  // Spacing of halves around the value; 2^-24 in the subnormal range.
  int spacing = std::max(exponent - 11, -24);
  auto units =
      static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, -spacing)));
  // units <= 2048; 2048 carries into the exponent by itself.
  return sign | static_cast<uint16_t>(units + (uint32_t(spacing + 24) << 10));
}

namespace {
/// Loading and storing one element of each type, through double.
template <FileDType> struct Format;
template <> struct Format<FileDType::F64> {
  using Bits = double;
  static double load(Bits bits) { return bits; }
  static Bits store(double value) { return value; }
};
template <> struct Format<FileDType::F32> {
  using Bits = float;
  static double load(Bits bits) { return bits; }
  static Bits store(double value) { return static_cast<float>(value); }
};
template <> struct Format<FileDType::BF16> {
  using Bits = uint16_t;
  static double load(Bits bits) { return fromBF16(bits); }
  static Bits store(double value) { return toBF16(value); }
};
template <> struct Format<FileDType::F16> {
  using Bits = uint16_t;
  static double load(Bits bits) { return fromF16(bits); }
  static Bits store(double value) { return toF16(value); }
};
} // namespace

/// Calls `body` with the Format of a weight dtype.
template <typename Body> static void withFormat(FileDType dtype, Body body) {
  switch (dtype) {
  case FileDType::F64:
    return body(Format<FileDType::F64>());
  case FileDType::F32:
    return body(Format<FileDType::F32>());
  case FileDType::BF16:
    return body(Format<FileDType::BF16>());
  case FileDType::F16:
    return body(Format<FileDType::F16>());
  default:
    assert(false && "not an element type of weights");
  }
}

/// Reads element `i` of packed data that need not be aligned.
template <typename Bits> static Bits readAt(const std::byte *data, int64_t i) {
  Bits bits;
  std::memcpy(&bits, data + i * sizeof(Bits), sizeof(Bits));
  return bits;
}

template <typename Bits>
static void writeAt(std::byte *data, int64_t i, Bits bits) {
  std::memcpy(data + i * sizeof(Bits), &bits, sizeof(Bits));
}

bool qwen::isWeightDType(FileDType dtype) {
  return dtype == FileDType::F64 || dtype == FileDType::F32 ||
         dtype == FileDType::BF16 || dtype == FileDType::F16;
}

FileDType qwen::fileDTypeOf(DType dtype) {
  switch (dtype) {
  case DType::F32:
    return FileDType::F32;
  case DType::BF16:
    return FileDType::BF16;
  case DType::F64:
    return FileDType::F64;
  case DType::I32:
    return FileDType::I32;
  }
  return FileDType::F32;
}

bool qwen::holdsExactly(FileDType to, DType from) {
  FileDType same = fileDTypeOf(from);
  if (to == same || to == FileDType::F64)
    return true;
  return to == FileDType::F32 && same == FileDType::BF16;
}

bool qwen::holdsExactly(DType to, FileDType from) {
  if (from == fileDTypeOf(to) || to == DType::F64)
    return true;
  return to == DType::F32 &&
         (from == FileDType::BF16 || from == FileDType::F16);
}

void qwen::loadElements(FileDType from, std::span<const std::byte> file,
                        const Buffer &live) {
  auto *out = static_cast<std::byte *>(live.data);
  if (from == fileDTypeOf(live.dtype)) {
    if (!file.empty())
      std::memcpy(out, file.data(), file.size());
    return;
  }
  int64_t count = live.elements();
  bool aligned = reinterpret_cast<uintptr_t>(file.data()) % 8 == 0;
  if (from == FileDType::F64 && live.dtype == DType::BF16 && aligned) {
    convert(reinterpret_cast<const double *>(file.data()), live.as<uint16_t>(),
            count);
    return;
  }
  withFormat(from, [&](auto source) {
    withFormat(fileDTypeOf(live.dtype), [&](auto target) {
      using Source = decltype(source);
      using Target = decltype(target);
#pragma omp parallel for schedule(static) if (count > 1 << 16)
      for (int64_t i = 0; i < count; ++i)
        writeAt(out, i,
                Target::store(Source::load(
                    readAt<typename Source::Bits>(file.data(), i))));
    });
  });
}

void qwen::storeElements(const ConstBuffer &live, int64_t first, int64_t count,
                         FileDType to, std::span<const std::byte> original,
                         std::byte *out) {
  auto *data = static_cast<const std::byte *>(live.data);
  if (to == fileDTypeOf(live.dtype)) {
    std::memcpy(out, data + first * dtypeBytes(live.dtype),
                size_t(count * dtypeBytes(live.dtype)));
    return;
  }
  withFormat(to, [&](auto target) {
    withFormat(fileDTypeOf(live.dtype), [&](auto source) {
      using Source = decltype(source);
      using Target = decltype(target);
      using TargetBits = typename Target::Bits;
#pragma omp parallel for schedule(static) if (count > 1 << 16)
      for (int64_t i = 0; i < count; ++i) {
        auto value = readAt<typename Source::Bits>(data, first + i);
        TargetBits stored = Target::store(Source::load(value));
        if (!original.empty()) {
          auto kept = readAt<TargetBits>(original.data(), first + i);
          auto rounded = Source::store(Target::load(kept));
          if (std::memcmp(&rounded, &value, sizeof value) == 0)
            stored = kept;
        }
        writeAt(out, i, stored);
      }
    });
  });
}

int64_t qwen::firstNonFinite(const ConstBuffer &live) {
  if (live.dtype == DType::I32)
    return -1;
  auto *data = static_cast<const std::byte *>(live.data);
  int64_t count = live.elements();
  int64_t first = count;
  withFormat(fileDTypeOf(live.dtype), [&](auto format) {
    using Live = decltype(format);
#pragma omp parallel for schedule(static)                                      \
    reduction(min : first) if (count > 1 << 16)
    for (int64_t i = 0; i < count; ++i)
      if (!std::isfinite(Live::load(readAt<typename Live::Bits>(data, i))))
        first = std::min(first, i);
  });
  return first == count ? -1 : first;
}

double qwen::meanOf(const ConstBuffer &live) {
  auto *data = static_cast<const std::byte *>(live.data);
  int64_t count = live.elements();
  double sum = 0;
  withFormat(fileDTypeOf(live.dtype), [&](auto format) {
    using Live = decltype(format);
    for (int64_t i = 0; i < count; ++i)
      sum += Live::load(readAt<typename Live::Bits>(data, i));
  });
  return count ? sum / double(count) : 0;
}
