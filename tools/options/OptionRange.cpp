//===- OptionRange.cpp - Allowed values of an option ----------------------===//

#include "tools/options/OptionRange.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <numeric>
#include <optional>
#include <vector>

using namespace qwen;

std::string OptionRange::text() const {
  // Bounds are whole, or tiny; 15 digits show them as they are.
  std::string from = fmt::format("{:.15g}", least),
              to = fmt::format("{:.15g}", most);
  const char *kind = isWhole ? "a whole number" : "a number";
  if (most == std::numeric_limits<double>::max())
    return fmt::format("{} of at least {}", kind, from);
  return mostExcluded
             ? fmt::format("{} of at least {} and below {}", kind, from, to)
             : fmt::format("{} from {} to {}", kind, from, to);
}

static std::optional<double> readNumber(std::string text) {
  if (text.starts_with('+'))
    text.erase(0, 1);
  double value = 0;
  const char *last = text.data() + text.size();
  auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last)
    return std::nullopt;
  return value;
}

std::string OptionRange::check(std::string value) const {
  std::optional<double> number = readNumber(value);
  // A NaN is in no range.
  bool isGood = number && *number >= least && *number <= most &&
                !(mostExcluded && *number == most) &&
                (!isWhole || value.find_first_of(".eEpP") == value.npos);
  return isGood ? "" : fmt::format("expected {}, found '{}'", text(), value);
}

/// Insertions, deletions and replacements that make one word of the other.
static size_t editDistance(const std::string &a, const std::string &b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string qwen::nearestName(const std::string &name,
                              std::span<const std::string> names) {
  // A third of the letters may be wrong, two in any but the shortest names:
  // "lrr", "sede", "min_lr".
  size_t best = name.size() / 3 + (name.size() < 4 ? 1 : 2);
  std::string nearest;
  for (const std::string &each : names)
    if (size_t edits = editDistance(name, each); edits < best) {
      best = edits;
      nearest = each;
    }
  return nearest;
}
