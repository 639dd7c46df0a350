//===- NormalNumbers.cpp - Normal random numbers, many at once ------------===//
//
// Polynomials and argument reductions are those of fdlibm (Sun Microsystems
// 1993), whose errors are below one unit in the last place.
//
//===----------------------------------------------------------------------===//

#include "runtime/trainer/NormalNumbers.h"

#include "qwen/Support/Random.h"
#include "runtime/support/VectorLevels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

using namespace qwen;

/// Numbers of a block: its words stay in the first-level cache.
static constexpr size_t lanes = 64;

/// toUnitInterval, without the conversion of 64-bit integers that vector units
/// lack: the bits become the fraction of a number from 1 to 2.
static inline double unitInterval(uint32_t high, uint32_t low) {
  uint64_t bits = (uint64_t(high) << 32 | low) >> 12;
  return (std::bit_cast<double>(bits | 0x3ff0000000000000u) - 1) + 0x1p-53;
}

/// The natural logarithm of a positive normal number.
static inline double logarithm(double x) {
  constexpr uint64_t one = 0x3ff0000000000000u;
  constexpr uint64_t rootHalf = 0x3fe6a09e00000000u; // a little below it
  // x = m 2^k with m between sqrt(1/2) and sqrt(2).
  uint64_t shifted = std::bit_cast<uint64_t>(x) + (one - rootHalf);
  double m = std::bit_cast<double>((shifted & 0x000fffffffffffffu) + rootHalf);
  double k = std::bit_cast<double>(shifted >> 52 | 0x4330000000000000u) -
             (0x1p52 + 1023);
  double f = m - 1, s = f / (2 + f), z = s * s, w = z * z;
  double odd =
      w * (3.999999999940941908e-01 +
           w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  double even =
      z * (6.666666666666735130e-01 +
           w * (2.857142874366239149e-01 +
                w * (1.818357216161805012e-01 + w * 1.479819860510658591e-01)));
  double half = 0.5 * f * f;
  return k * 6.93147180369123816490e-01 -
         ((half -
           (s * (half + (odd + even)) + k * 1.90821492927058770002e-10)) -
          f);
}

/// cos(2 pi x) for x from 0 to 1.
static inline double cosineOfTurns(double x) {
  // Adding 1.5 2^52 rounds to a whole number of quarter turns, which stands in
  // the last bits.
  double quarters = 4 * x, shifted = quarters + 0x1.8p52;
  uint64_t quadrant = std::bit_cast<uint64_t>(shifted);
  double angle = (quarters - (shifted - 0x1.8p52)) * (std::numbers::pi / 2);
  double z = angle * angle;
  double sine =
      angle + angle * z *
                  (-1.66666666666666324348e-01 +
                   z * (8.33333333332248946124e-03 +
                        z * (-1.98412698298579493134e-04 +
                             z * (2.75573137070700676789e-06 +
                                  z * (-2.50507602534068634195e-08 +
                                       z * 1.58969099521155010221e-10)))));
  double cosine =
      1 -
      (0.5 * z - z * z *
                     (4.16666666666666019037e-02 +
                      z * (-1.38888888888741095749e-03 +
                           z * (2.48015872894767294178e-05 +
                                z * (-2.75573143513906633035e-07 +
                                     z * (2.08757232129817482790e-09 +
                                          z * -1.13596475577881948265e-11))))));
  double magnitude = quadrant & 1 ? sine : cosine;
  // The second and the third quadrant are negative.
  return std::bit_cast<double>(std::bit_cast<uint64_t>(magnitude) ^
                               ((quadrant + 1) & 2) << 62);
}

QWEN_FOR_EACH_LEVEL
static void fillBlocks(double *out, size_t blocks, uint32_t seed,
                       uint32_t tensor, uint64_t first) {
  for (size_t block = 0; block < blocks; ++block) {
    uint32_t c0[lanes], c1[lanes], c2[lanes], c3[lanes];
    for (size_t i = 0; i < lanes; ++i) {
      uint64_t element = first + block * lanes + i;
      c0[i] = uint32_t(element);
      c1[i] = uint32_t(element >> 32);
      c2[i] = 0;
      c3[i] = tensor;
    }
    // philoxRounds with the elements as the inner loop.
    uint32_t key0 = seed, key1 = uint32_t(RandomUse::Initialization);
    for (int round = 0; round < 10; ++round) {
      for (size_t i = 0; i < lanes; ++i) {
        uint64_t a = uint64_t(0xD2511F53u) * c0[i];
        uint64_t b = uint64_t(0xCD9E8D57u) * c2[i];
        c0[i] = uint32_t(b >> 32) ^ c1[i] ^ key0;
        c1[i] = uint32_t(b);
        c2[i] = uint32_t(a >> 32) ^ c3[i] ^ key1;
        c3[i] = uint32_t(a);
      }
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    for (size_t i = 0; i < lanes; ++i)
      out[block * lanes + i] =
          std::sqrt(-2 * logarithm(unitInterval(c0[i], c1[i]))) *
          cosineOfTurns(unitInterval(c2[i], c3[i]));
  }
}

void qwen::fillNormal(std::span<double> out, uint32_t seed, uint32_t tensor,
                      uint64_t first) {
  size_t blocks = out.size() / lanes, whole = blocks * lanes;
  fillBlocks(out.data(), blocks, seed, tensor, first);
  if (whole == out.size())
    return;
  double rest[lanes];
  fillBlocks(rest, 1, seed, tensor, first + whole);
  std::copy_n(rest, out.size() - whole, out.data() + whole);
}
