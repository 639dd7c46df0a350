//===- HostTensor.cpp - An operand in host memory -------------------------===//

#include "runtime/selfcheck/HostTensor.h"

#include "qwen/Support/BFloat16.h"

#include <cstring>

using namespace qwen;

HostTensor::HostTensor(const BufferType &type)
    : held(type), memory(size_t(type.extent() * dtypeBytes(type.dtype)), 0xff) {
}

int64_t HostTensor::offset(int64_t i) const {
  int64_t at = 0;
  for (int d = held.rank - 1; d >= 0; --d) {
    at += i % held.shape[d] * held.strides[d];
    i /= held.shape[d];
  }
  return at * dtypeBytes(held.dtype);
}

template <typename T>
static T load(const std::vector<uint8_t> &memory, int64_t at) {
  T value;
  std::memcpy(&value, memory.data() + at, sizeof(T));
  return value;
}

template <typename T>
static void store(std::vector<uint8_t> &memory, int64_t at, T value) {
  std::memcpy(memory.data() + at, &value, sizeof(T));
}

double HostTensor::get(int64_t i) const {
  int64_t at = offset(i);
  switch (held.dtype) {
  case DType::F32:
    return double(load<float>(memory, at));
  case DType::F64:
    return load<double>(memory, at);
  case DType::BF16:
    return double(toFloat(load<BFloat16>(memory, at)));
  case DType::I32:
    return load<int32_t>(memory, at);
  }
  return 0;
}

void HostTensor::set(int64_t i, double value) {
  int64_t at = offset(i);
  switch (held.dtype) {
  case DType::F32:
    return store(memory, at, float(value));
  case DType::F64:
    return store(memory, at, value);
  case DType::BF16:
    return store(memory, at, toBFloat16(float(value)));
  case DType::I32:
    return store(memory, at, int32_t(value));
  }
}

void HostTensor::uniform(std::mt19937_64 &random, double low, double high) {
  std::uniform_real_distribution<double> distribution(low, high);
  for (int64_t i = 0; i < size(); ++i)
    set(i, distribution(random));
}

void HostTensor::fill(double value) {
  for (int64_t i = 0; i < size(); ++i)
    set(i, value);
}

void HostTensor::assign(const HostTensor &other) {
  for (int64_t i = 0; i < size(); ++i)
    set(i, other.get(i));
}
