//===- KernelShapes.h - Widths and heads of the models ---------*- C++ -*-===//

#ifndef QWEN_TOOLS_QWEN_BENCH_KERNELSHAPES_H
#define QWEN_TOOLS_QWEN_BENCH_KERNELSHAPES_H

#include <cstdint>
#include <string>
#include <vector>

namespace qwen::bench {

/// What the kernels' shapes follow from.
struct ModelShape {
  const char *name;
  int64_t keyHeads, valueHeads;  ///< of the gated delta rule, 128 wide
  int64_t queryHeads, pairHeads; ///< of attention, 256 wide; keys and values
  int64_t width;

  /// q, k and v of the gated delta rule, as the convolution makes them.
  int64_t channels() const { return (2 * keyHeads + valueHeads) * 128; }
};

inline constexpr ModelShape modelShapes[] = {
    {"27B", 16, 48, 24, 4, 5120},
    {"9B", 16, 32, 16, 4, 4096},
    {"0.8B", 16, 16, 8, 2, 1024},
};
inline constexpr int64_t vocabulary = 248320;

/// The shape of that name, or null.
inline const ModelShape *findModelShape(const std::string &name) {
  for (const ModelShape &shape : modelShapes)
    if (name == shape.name)
      return &shape;
  return nullptr;
}

/// Documents of a pack.
struct Pack {
  std::vector<int64_t> lengths;

  int64_t tokens() const {
    int64_t sum = 0;
    for (int64_t length : lengths)
      sum += length;
    return sum;
  }
  int64_t documents() const { return int64_t(lengths.size()); }
  /// Pairs of a token and one at or before it in its document.
  double contextPairs() const {
    double pairs = 0;
    for (int64_t length : lengths)
      pairs += double(length) * double(length + 1) / 2;
    return pairs;
  }
  std::vector<int32_t> boundaries() const {
    std::vector<int32_t> result = {0};
    for (int64_t length : lengths)
      result.push_back(result.back() + int32_t(length));
    return result;
  }
};

} // namespace qwen::bench

#endif // QWEN_TOOLS_QWEN_BENCH_KERNELSHAPES_H
