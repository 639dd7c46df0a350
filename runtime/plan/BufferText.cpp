//===- BufferText.cpp - Buffer types as text ------------------*- C++ -*-===//
//
// How a buffer type reads in an error message or a dump.
//
//===----------------------------------------------------------------------===//

#include "qwen/Plan/Buffer.h"

using namespace qwen;

static std::string join(const std::array<int64_t, maxRank> &values, int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += (i ? ", " : "") + std::to_string(values[i]);
  return text;
}

std::string qwen::toString(const BufferType &type) {
  int rank = type.rank < 0 ? 0 : type.rank > maxRank ? maxRank : type.rank;
  std::string text =
      std::string(dtypeName(type.dtype)) + "[" + join(type.shape, rank) + "]";
  if (!type.isContiguous())
    text += " strides [" + join(type.strides, rank) + "]";
  return text;
}
