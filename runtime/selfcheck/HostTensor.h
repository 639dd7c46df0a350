//===- HostTensor.h - An operand in host memory ----------------*- C++ -*-===//
//
// Elements are read and written as double, in row-major order of the shape,
// whatever their type and layout.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_SELFCHECK_HOSTTENSOR_H
#define QWEN_RUNTIME_SELFCHECK_HOSTTENSOR_H

#include "qwen/Plan/Contiguous.h"

#include <random>
#include <span>
#include <vector>

namespace qwen {

/// An operand with its memory, in which every byte starts as 0xff: a NaN.
class HostTensor {
public:
  explicit HostTensor(const BufferType &type);

  int64_t size() const { return held.elements(); }
  const BufferType &type() const { return held; }
  double get(int64_t i) const;
  void set(int64_t i, double value);
  void uniform(std::mt19937_64 &random, double low, double high);
  void fill(double value);
  /// Takes the elements of a tensor of the same shape, rounded to this type.
  void assign(const HostTensor &other);

  Buffer buffer() {
    Buffer view;
    static_cast<BufferType &>(view) = held;
    view.data = memory.data();
    return view;
  }

private:
  int64_t offset(int64_t i) const;

  BufferType held;
  std::vector<uint8_t> memory;
};

} // namespace qwen

#endif // QWEN_RUNTIME_SELFCHECK_HOSTTENSOR_H
