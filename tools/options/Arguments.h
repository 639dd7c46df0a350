//===- Arguments.h - Command lines read by CLI11 ----------------*- C++ -*-===//
//
// Options with ranges, and faults in one line that says which values and names
// there are. CLI11 reports by exceptions; callers of `parse` catch them.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TOOLS_OPTIONS_ARGUMENTS_H
#define QWEN_TOOLS_OPTIONS_ARGUMENTS_H

#include "tools/options/OptionRange.h"

#include <CLI/CLI.hpp>

#include <vector>

namespace qwen {

/// Refuses what is not in the range, and says what is.
CLI::Validator within(const OptionRange &range);

/// An option that is a number of the range.
template <typename T>
CLI::Option *addNumber(CLI::App &app, const char *name, T &value,
                       const OptionRange &range, const char *text) {
  return app.add_option(name, value, text)->check(within(range));
}

/// An option that is a list of numbers of the range: 8,64,512. What follows the
/// list is no part of it.
template <typename T>
CLI::Option *addNumbers(CLI::App &app, const char *name, std::vector<T> &values,
                        const OptionRange &range, const char *text) {
  return app.add_option(name, values, text)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(within(range));
}

/// Names of the options, without dashes.
std::vector<std::string> optionNames(const CLI::App &app);

/// "; did you mean --lr?" of a name that is none of `names`, or nothing.
std::string guessName(const std::string &name,
                      std::span<const std::string> names, const char *prefix);

/// What is wrong with a command line, in one line.
std::string describe(const CLI::App &app, const CLI::ParseError &error);

} // namespace qwen

#endif // QWEN_TOOLS_OPTIONS_ARGUMENTS_H
