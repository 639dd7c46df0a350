//===- ParityTesting.cpp - Operands and packs for kernel tests -*- C++ -*-===//
//
// See ParityTesting.h.
//
//===----------------------------------------------------------------------===//

#include "ParityTesting.h"

#include "qwen/Support/BFloat16.h"

#include <omp.h>

#include <algorithm>

using namespace qwen;
using namespace qwen::parity;

/// Fills memory that no element of a view covers.
static constexpr uint8_t gapByte = 0xa5;

Tensor::Tensor(DType dtype, std::vector<int64_t> shape, Spacing spacing) {
  type.dtype = dtype;
  type.rank = static_cast<int>(shape.size());
  // Gaps of sizes that keep rows off vector boundaries.
  constexpr int64_t gaps[] = {0, 3, 5, 7};
  int64_t stride = 1;
  for (int i = type.rank - 1; i >= 0; --i) {
    type.shape[i] = shape[i];
    type.strides[i] = stride;
    stride *= shape[i];
    if (spacing == Spacing::Sliced && type.rank > 1)
      stride += gaps[type.rank - i];
  }
  first = spacing == Spacing::Sliced ? 2 : 0;
  memory.assign((first + type.extent() + 9) * dtypeBytes(dtype), gapByte);
  fill(0);
}

int64_t Tensor::offset(int64_t i) const {
  int64_t at = first;
  for (int d = type.rank - 1; d >= 0; --d) {
    at += i % type.shape[d] * type.strides[d];
    i /= type.shape[d];
  }
  return at;
}

double Tensor::get(int64_t i) const {
  const uint8_t *from = memory.data() + offset(i) * dtypeBytes(type.dtype);
  switch (type.dtype) {
  case DType::F32:
    return *reinterpret_cast<const float *>(from);
  case DType::F64:
    return *reinterpret_cast<const double *>(from);
  case DType::BF16:
    return toFloat(*reinterpret_cast<const BFloat16 *>(from));
  case DType::I32:
    return *reinterpret_cast<const int32_t *>(from);
  }
  return 0;
}

void Tensor::set(int64_t i, double value) {
  uint8_t *to = memory.data() + offset(i) * dtypeBytes(type.dtype);
  switch (type.dtype) {
  case DType::F32:
    *reinterpret_cast<float *>(to) = static_cast<float>(value);
    return;
  case DType::F64:
    *reinterpret_cast<double *>(to) = value;
    return;
  case DType::BF16:
    *reinterpret_cast<BFloat16 *>(to) = toBFloat16(static_cast<float>(value));
    return;
  case DType::I32:
    *reinterpret_cast<int32_t *>(to) = static_cast<int32_t>(value);
    return;
  }
}

Values Tensor::values() const {
  Values all(size());
  for (int64_t i = 0; i < size(); ++i)
    all[i] = get(i);
  return all;
}

void Tensor::setValues(const Values &values) {
  for (int64_t i = 0; i < size(); ++i)
    set(i, values[i]);
}

Tensor &Tensor::uniform(std::mt19937_64 &random, double low, double high) {
  std::uniform_real_distribution<double> distribution(low, high);
  for (int64_t i = 0; i < size(); ++i)
    set(i, distribution(random));
  return *this;
}

Tensor &Tensor::fill(double value) {
  for (int64_t i = 0; i < size(); ++i)
    set(i, value);
  return *this;
}

Tensor::operator Buffer() const {
  Buffer buffer;
  static_cast<BufferType &>(buffer) = type;
  buffer.data =
      const_cast<uint8_t *>(memory.data()) + first * dtypeBytes(type.dtype);
  return buffer;
}

std::vector<uint8_t> Tensor::bits(int64_t begin, int64_t end) const {
  std::vector<uint8_t> all;
  int64_t row = size() / type.dim(0), bytes = dtypeBytes(type.dtype);
  for (int64_t i = begin * row; i < end * row; ++i) {
    const uint8_t *from = memory.data() + offset(i) * bytes;
    all.insert(all.end(), from, from + bytes);
  }
  return all;
}

bool Tensor::gapsUntouched() const {
  int64_t bytes = dtypeBytes(type.dtype);
  std::vector<bool> covered(memory.size());
  for (int64_t i = 0; i < size(); ++i)
    for (int64_t b = 0; b < bytes; ++b)
      covered[offset(i) * bytes + b] = true;
  for (size_t i = 0; i < memory.size(); ++i)
    if (!covered[i] && memory[i] != gapByte)
      return false;
  return true;
}

Tensor Pack::tensor() const {
  Tensor result(DType::I32, {static_cast<int64_t>(boundaries.size())});
  for (size_t i = 0; i < boundaries.size(); ++i)
    result.set(static_cast<int64_t>(i), boundaries[i]);
  return result;
}

Pack qwen::parity::packOf(std::vector<int64_t> lengths, int64_t unused,
                          int64_t tail) {
  Pack pack{0, {0}};
  for (int64_t length : lengths)
    pack.boundaries.push_back(
        static_cast<int32_t>(pack.boundaries.back() + length));
  for (int64_t i = 0; i < unused; ++i)
    pack.boundaries.push_back(pack.boundaries.back());
  pack.tokens = pack.boundaries.back() + tail;
  return pack;
}

Pack qwen::parity::raggedPack() {
  return packOf({0, 1, 2, 65, 3, 4, 0, 0, 128, 5, 63, 127, 64, 129, 0}, 3, 11);
}

Pack qwen::parity::randomPack(std::mt19937_64 &random, int64_t tokens) {
  static const int64_t lengths[] = {0,  1,  2,  3,   4,   5,   17, 63,
                                    64, 65, 90, 127, 128, 129, 200};
  std::vector<int64_t> chosen;
  for (int64_t left = tokens; left > 0;) {
    int64_t length = std::min(left, lengths[random() % std::size(lengths)]);
    chosen.push_back(length);
    left -= length;
  }
  return packOf(chosen, static_cast<int64_t>(random() % 3),
                static_cast<int64_t>(random() % 70));
}

void qwen::parity::expectClose(const Tensor &result, const Values &exact,
                               double sums, const std::string &name,
                               double terms) {
  ASSERT_EQ(result.size(), static_cast<int64_t>(exact.size())) << name;
  double magnitude = terms;
  for (double value : exact)
    magnitude = std::max(magnitude, std::fabs(value));
  int64_t worst = -1;
  double worstExcess = 1;
  for (int64_t i = 0; i < result.size(); ++i) {
    double error = std::fabs(result.get(i) - exact[i]);
    double bound = resultTolerance(result.dtype(), sums, magnitude, exact[i]);
    // A NaN fails too.
    if (!(error <= bound) && !(bound > 0 && error / bound <= worstExcess)) {
      worst = i;
      worstExcess = bound > 0 ? error / bound : 1;
    }
  }
  EXPECT_EQ(worst, -1) << name << " " << dtypeName(result.dtype())
                       << ": element " << worst << " is "
                       << result.get(std::max<int64_t>(worst, 0)) << ", exact "
                       << exact[std::max<int64_t>(worst, 0)] << ", "
                       << worstExcess << " times the bound";
  EXPECT_TRUE(result.gapsUntouched()) << name;
}

void qwen::parity::randomIds(Tensor &ids, std::mt19937_64 &random,
                             int64_t limit) {
  for (int64_t i = 0; i < ids.size(); ++i)
    ids.set(i, static_cast<double>(random() % static_cast<uint64_t>(limit)));
}

void qwen::parity::setThreads(int threads) { omp_set_num_threads(threads); }

void qwen::parity::expectDifferences(Tensor &input, const Tensor &gradient,
                                     int64_t samples, double length,
                                     const std::function<double()> &loss,
                                     const std::string &name) {
  int64_t step = std::max<int64_t>(1, input.size() / samples);
  double h = differenceStep(), magnitude = std::max(1.0, std::fabs(loss()));
  for (int64_t i = 0; i < gradient.size(); ++i)
    magnitude = std::max(magnitude, std::fabs(gradient.get(i)));
  double bound = differenceTolerance(magnitude, length);
  for (int64_t i = step / 2; i < input.size(); i += step) {
    double old = input.get(i);
    input.set(i, old + h);
    double above = loss();
    input.set(i, old - h);
    double below = loss();
    input.set(i, old);
    EXPECT_NEAR((above - below) / (2 * h), gradient.get(i), bound)
        << name << " element " << i;
  }
}

double qwen::parity::weightedSum(const Tensor &values, const Tensor &weights) {
  double total = 0;
  for (int64_t i = 0; i < values.size(); ++i)
    total += values.get(i) * weights.get(i);
  return total;
}
