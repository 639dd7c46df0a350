//===- Random.h - Counter-based random numbers -----------------*- C++ -*-===//
//
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). A number is a pure function of what it is for, so the order of
// work, threads and restarts cannot change it.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_SUPPORT_RANDOM_H
#define QWEN_SUPPORT_RANDOM_H

#include <array>
#include <cstdint>

#ifdef __CUDACC__
#define QWEN_HOST_DEVICE __host__ __device__
#else
#define QWEN_HOST_DEVICE
#endif

namespace qwen {

/// What a random number is for; numbers of different uses are independent.
enum class RandomUse : uint32_t {
  Initialization = 1,
  Shuffle = 2,
  StochasticRounding = 3,
};

/// Philox4x32 with ten rounds in place: 128 random bits of a counter under a
/// key. On plain words, as device code has no std::array.
QWEN_HOST_DEVICE constexpr void philoxRounds(uint32_t (&counter)[4],
                                             uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t(0xD2511F53u) * counter[0];
    uint64_t b = uint64_t(0xCD9E8D57u) * counter[2];
    counter[0] = uint32_t(b >> 32) ^ counter[1] ^ key0;
    counter[1] = uint32_t(b);
    counter[2] = uint32_t(a >> 32) ^ counter[3] ^ key1;
    counter[3] = uint32_t(a);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

/// As philoxRounds, by value.
constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  uint32_t words[4] = {counter[0], counter[1], counter[2], counter[3]};
  philoxRounds(words, key[0], key[1]);
  return {words[0], words[1], words[2], words[3]};
}

/// 128 random bits for element `index` of stream (`a`, `b`), e.g. of a step and
/// a tensor.
constexpr std::array<uint32_t, 4> randomBits(uint32_t seed, RandomUse use,
                                             uint32_t a, uint32_t b,
                                             uint64_t index) {
  return philox4x32({uint32_t(index), uint32_t(index >> 32), a, b},
                    {seed, static_cast<uint32_t>(use)});
}

/// The stochastic roundings of one element by an optimizer step.
enum class Rounding : uint32_t { Parameter = 0, Moment1 = 1, Moment2 = 2 };

/// The 16 random bits of a rounding. `words` are the 128 bits of the pair of
/// elements (2 i, 2 i + 1) that `element` belongs to, counter i: two elements
/// need 96 bits, so one counter serves both.
QWEN_HOST_DEVICE constexpr uint32_t
roundingBits(const uint32_t (&words)[4], uint64_t element, Rounding rounding) {
  uint32_t lane = static_cast<uint32_t>(rounding);
  uint32_t word = words[2 * (element & 1) + lane / 2];
  return lane & 1 ? word >> 16 : word & 0xffffu;
}

/// A double strictly between 0 and 1 from 64 random bits.
constexpr double toUnitInterval(uint32_t high, uint32_t low) {
  uint64_t bits = (uint64_t(high) << 32 | low) >> 12;
  return (double(bits) + 0.5) * 0x1p-52;
}

} // namespace qwen

#endif // QWEN_SUPPORT_RANDOM_H
