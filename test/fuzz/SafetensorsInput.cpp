//===- SafetensorsInput.cpp - Safetensors files that pass the frame -------===//

#include "SafetensorsInput.h"

#include <cstring>

using namespace qwen;

/// Bytes from the start to the end of the object that begins there, or 0.
static size_t objectLength(std::span<const uint8_t> text) {
  int depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    uint8_t c = text[i];
    if (inString) {
      i += c == '\\';
      inString = c != '"';
      continue;
    }
    inString = c == '"';
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (depth == 0)
      return i + 1;
  }
  return 0;
}

std::vector<uint8_t> fuzz::withRightLength(std::span<const uint8_t> file) {
  std::vector<uint8_t> result(file.begin(), file.end());
  if (file.size() < sizeof(uint64_t))
    return result;
  std::span<const uint8_t> text = file.subspan(sizeof(uint64_t));
  uint64_t length = objectLength(text);
  while (length > 0 && length < text.size() && text[length] == ' ')
    ++length;
  if (length > 0)
    std::memcpy(result.data(), &length, sizeof(length));
  return result;
}
