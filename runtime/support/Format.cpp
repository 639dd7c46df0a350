//===- Format.cpp - Numbers as people read them ---------------------------===//

#include "runtime/support/Format.h"

#include <fmt/format.h>

#include <array>

std::string qwen::formatBytes(double bytes) {
  constexpr std::array<const char *, 5> units = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < units.size()) {
    bytes /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes)
                   : fmt::format("{:.2f} {}", bytes, units[unit]);
}
