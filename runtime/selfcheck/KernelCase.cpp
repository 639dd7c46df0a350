//===- KernelCase.cpp - Random operands of one kernel ---------------------===//

#include "runtime/selfcheck/KernelCase.h"

#include <algorithm>
#include <cmath>
#include <iterator>

using namespace qwen;

int64_t CheckPack::longest() const {
  int64_t longest = 1;
  for (size_t i = 0; i + 1 < boundaries.size(); ++i)
    longest = std::max<int64_t>(longest, boundaries[i + 1] - boundaries[i]);
  return longest;
}

CheckPack CheckPack::of(std::span<const int64_t> lengths, int64_t unused,
                        int64_t tail) {
  CheckPack pack;
  for (int64_t length : lengths)
    pack.boundaries.push_back(int32_t(pack.boundaries.back() + length));
  pack.boundaries.insert(pack.boundaries.end(), size_t(unused),
                         pack.boundaries.back());
  pack.tokens = pack.used() + tail;
  return pack;
}

CheckPack CheckPack::random(std::mt19937_64 &random, int64_t tokens) {
  static constexpr int64_t sizes[] = {0,  1,  2,  3,   4,   5,   17, 63,
                                      64, 65, 90, 127, 128, 129, 200};
  int64_t tail = std::min<int64_t>(int64_t(random() % 40), tokens / 2);
  std::vector<int64_t> lengths;
  for (int64_t left = tokens - tail; left > 0; left -= lengths.back())
    lengths.push_back(std::min(left, sizes[random() % std::size(sizes)]));
  return of(lengths, int64_t(random() % 3), tail);
}

OperandRange qwen::operandRange(std::string_view kernel, std::string_view name,
                                int64_t columns) {
  if (kernel.starts_with("linear_cross_entropy")) {
    double range = 2 / std::sqrt(double(std::max<int64_t>(columns, 1)));
    if (name == "weight")
      return {-range, range};
    if (name == "dnll")
      return {1e-4, 2e-4};
  }
  if (name == "g")
    return {-0.5, 0};
  if (name == "beta")
    return {0, 1};
  if (kernel.starts_with("attention") && (name == "q" || name == "k"))
    return {-2, 2};
  return {-1, 1};
}

void qwen::drawLabels(std::mt19937_64 &random, int64_t classes, int64_t ignored,
                      HostTensor &labels) {
  for (int64_t i = 0; i < labels.size(); ++i)
    labels.set(i, random() % 3 == 0 ? double(ignored)
                                    : double(random() % uint64_t(classes)));
}

bool qwen::isPerToken(std::string_view operand) {
  return operand != "cu_seqlens" && operand != "weight" && operand != "dweight";
}
