//===- Tensor.h - Values of the reference interpreter ----------*- C++ -*-===//
//
// A dense tensor of doubles. Ids and booleans are held as doubles too; all that
// occur are exact.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_GRADCHECK_TENSOR_H
#define QWEN_TEST_GRADCHECK_TENSOR_H

#include <cstdint>
#include <vector>

namespace qwen::gradcheck {

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<double> values;

  Tensor() = default;
  explicit Tensor(std::vector<int64_t> dims, double value = 0.0)
      : shape(std::move(dims)) {
    values.assign(count(shape), value);
  }

  static int64_t count(const std::vector<int64_t> &shape) {
    int64_t n = 1;
    for (int64_t dim : shape)
      n *= dim;
    return n;
  }

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t size() const { return static_cast<int64_t>(values.size()); }
  int64_t dim(int64_t i) const { return shape[i]; }
  int64_t lastDim() const { return shape.back(); }

  double &at(int64_t i) { return values[i]; }
  double at(int64_t i) const { return values[i]; }
  double &at(int64_t i, int64_t j) { return values[i * shape[1] + j]; }
  double at(int64_t i, int64_t j) const { return values[i * shape[1] + j]; }
  double &at(int64_t i, int64_t j, int64_t k) {
    return values[(i * shape[1] + j) * shape[2] + k];
  }
  double at(int64_t i, int64_t j, int64_t k) const {
    return values[(i * shape[1] + j) * shape[2] + k];
  }
};

} // namespace qwen::gradcheck

#endif // QWEN_TEST_GRADCHECK_TENSOR_H
