//===- OptionRange.h - Allowed values of an option -------------*- C++ -*-===//

#ifndef QWEN_TOOLS_OPTIONS_OPTIONRANGE_H
#define QWEN_TOOLS_OPTIONS_OPTIONRANGE_H

#include <limits>
#include <span>
#include <string>

namespace qwen {

/// The numbers that an option takes.
struct OptionRange {
  double least = 0;
  double most = std::numeric_limits<double>::max();
  bool isWhole = false;
  bool mostExcluded = false;

  /// Whole numbers of both ends included.
  static constexpr OptionRange whole(double least, double most) {
    return {least, most, true, false};
  }

  /// "a whole number from 1 to 4096".
  std::string text() const;
  /// Empty where the text is a number of this range, else what was expected
  /// and what was found.
  std::string check(std::string value) const;
};

/// The name nearest to `name` by edits, where few enough are needed to take it
/// for the one that was meant; else empty.
std::string nearestName(const std::string &name,
                        std::span<const std::string> names);

} // namespace qwen

#endif // QWEN_TOOLS_OPTIONS_OPTIONRANGE_H
