//===- Tensors.cpp - Copies of a model's tensors, compared ----------------===//

#include "Tensors.h"

#include "qwen/Support/BFloat16.h"

#include <bit>
#include <cmath>
#include <limits>

using namespace qwen;
using namespace qwen::e2e;

std::vector<float> qwen::e2e::copyOf(const ConstBuffer &buffer) {
  std::vector<float> result(size_t(buffer.elements()));
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = buffer.dtype == DType::BF16 ? toFloat(buffer.as<BFloat16>()[i])
                                            : buffer.as<float>()[i];
  return result;
}

testing::AssertionResult qwen::e2e::sameBits(std::span<const float> a,
                                             std::span<const float> b) {
  if (a.size() != b.size())
    return testing::AssertionFailure()
           << a.size() << " and " << b.size() << " elements";
  size_t different = 0, first = 0;
  for (size_t i = a.size(); i-- > 0;)
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) {
      ++different;
      first = i;
    }
  if (different == 0)
    return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << different << " of " << a.size() << " elements differ, first "
         << first << ": " << testing::PrintToString(a[first]) << " and "
         << testing::PrintToString(b[first]);
}

testing::AssertionResult qwen::e2e::sameBits(const Tensors &a,
                                             const Tensors &b) {
  if (a.size() != b.size())
    return testing::AssertionFailure()
           << a.size() << " and " << b.size() << " tensors";
  std::string failures;
  size_t different = 0;
  for (const auto &[name, values] : a) {
    auto other = b.find(name);
    if (other == b.end())
      return testing::AssertionFailure() << "only one has " << name;
    auto same = sameBits(values, other->second);
    if (!same && ++different <= 4)
      failures += "\n" + name + ": " + same.message();
  }
  if (different == 0)
    return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << different << " of " << a.size() << " tensors differ:" << failures;
}

double qwen::e2e::norm(std::span<const float> a) {
  double sum = 0;
  for (float value : a)
    sum += double(value) * double(value);
  return std::sqrt(sum);
}

double qwen::e2e::distance(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size())
    return std::numeric_limits<double>::infinity();
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    double difference = double(a[i]) - double(b[i]);
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

double qwen::e2e::relativeError(std::span<const float> got,
                                std::span<const float> want) {
  return distance(got, want) / norm(want);
}

Tensors qwen::e2e::joinSmall(const Tensors &tensors) {
  Tensors result;
  for (const auto &[name, values] : tensors) {
    auto &target = result[values.size() < smallTensor ? "small" : name];
    target.insert(target.end(), values.begin(), values.end());
  }
  return result;
}

bool qwen::e2e::allFinite(const Tensors &tensors) {
  for (const auto &[name, values] : tensors)
    for (float value : values)
      if (!std::isfinite(value))
        return false;
  return true;
}
