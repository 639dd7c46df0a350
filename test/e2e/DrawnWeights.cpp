//===- DrawnWeights.cpp - Weights and sketches from counters --------------===//

#include "DrawnWeights.h"

#include "qwen/Support/BFloat16.h"
#include "qwen/Support/Random.h"

#include <cmath>

using namespace qwen;
using namespace qwen::e2e;

uint32_t qwen::e2e::hashName(const std::string &name) {
  uint32_t hash = 2166136261u;
  for (unsigned char c : name)
    hash = (hash ^ c) * 16777619u;
  return hash;
}

/// The runtime's own initialisation draws from stream 0.
static std::array<uint32_t, 4> bitsOf(uint32_t seed, uint32_t tensor,
                                      int64_t element) {
  return randomBits(seed, RandomUse::Initialization, 1, tensor,
                    uint64_t(element));
}

/// The standard deviation of `normalOf`, as an integer.
static constexpr int64_t sigma = 107020;

/// Twice the sum of eight halves of words, centred.
static int64_t normalOf(const std::array<uint32_t, 4> &bits) {
  int64_t total = 0;
  for (uint32_t word : bits)
    total += int64_t(word & 0xFFFF) + int64_t(word >> 16);
  return 2 * total - 8 * 0xFFFF;
}

static bool endsWithOneOf(const std::string &name,
                          std::initializer_list<const char *> endings) {
  for (const char *ending : endings)
    if (name.ends_with(ending))
      return true;
  return false;
}

std::vector<float> qwen::e2e::drawWeight(const std::string &name,
                                         std::span<const int64_t> shape,
                                         uint32_t seed, int64_t keyRows) {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  // A tensor's numbers do not depend on its place in a list.
  uint32_t tensor = hashName(name);
  auto draw = [&](int64_t i) { return normalOf(bitsOf(seed, tensor, i)); };

  double scale = 1.0 / std::sqrt(double(shape.back())) / double(sigma);
  bool isDecay = name.ends_with("linear_attn.A_log");
  bool isGatedNorm = name.ends_with("linear_attn.norm.weight");
  bool hasQueries =
      endsWithOneOf(name, {"in_proj_qkv.weight", "conv1d.weight"});
  if (isDecay)
    scale = 4.6 * 0x1p-32;
  else if (name.ends_with("linear_attn.dt_bias"))
    scale = 1.0 / double(sigma);
  else if (shape.size() == 1)
    scale = 0.25 / double(sigma);
  else if (name.ends_with("conv1d.weight"))
    scale = 0.5 / double(sigma);
  if (endsWithOneOf(name,
                    {"o_proj.weight", "out_proj.weight", "down_proj.weight"}))
    scale = 0.5 * scale;
  if (hasQueries)
    scale = scale / 20;

  int64_t keys = hasQueries ? keyRows * (count / shape[0]) : 0;
  std::vector<float> result(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    int64_t integer = draw(i);
    if (isDecay)
      integer = -int64_t(bitsOf(seed, tensor, i)[0]);
    if (isGatedNorm)
      integer += 4 * sigma;
    if (hasQueries)
      integer = i < keys ? 6 * integer + 19 * draw(i + keys) : 20 * integer;
    auto value = static_cast<float>(double(integer) * scale);
    result[size_t(i)] = toFloat(toBFloat16(value));
  }
  return result;
}

std::vector<float> qwen::e2e::sketch(std::span<const float> tensor) {
  if (tensor.size() <= sketchWidth)
    return {tensor.begin(), tensor.end()};
  std::vector<double> sums(sketchWidth, 0.0);
  for (size_t i = 0; i < tensor.size(); ++i) {
    auto bits =
        philox4x32({uint32_t(i), uint32_t(uint64_t(i) >> 32), 0, 0}, {0, 0});
    double value = double(tensor[i]);
    sums[bits[0] % sketchWidth] += bits[1] & 1 ? -value : value;
  }
  return {sums.begin(), sums.end()};
}

double qwen::e2e::sketchSlack() {
  return 1 + 6 / std::sqrt(2.0 * double(sketchWidth));
}
