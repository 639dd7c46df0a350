//===- Buffer.cpp - Text form of buffer types -----------------------------===//

#include "qwen/Plan/Buffer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>

std::string qwen::toString(const BufferType &type) {
  auto shape = std::span(type.shape).first(type.rank);
  auto strides = std::span(type.strides).first(type.rank);
  std::string text =
      fmt::format("{}[{}]", dtypeName(type.dtype), fmt::join(shape, ", "));
  if (!type.isContiguous())
    text += fmt::format(" strides [{}]", fmt::join(strides, ", "));
  return text;
}
