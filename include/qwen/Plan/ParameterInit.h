//===- ParameterInit.h - How fresh parameters are filled -------*- C++ -*-===//
//
// The home of the initialisations' names, as `init` of qwen.parameter and
// plan.parameter spells them, and of their numbers in plan.fbs.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_PLAN_PARAMETERINIT_H
#define QWEN_PLAN_PARAMETERINIT_H

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace qwen {

/// How `--init random` fills a parameter: a normal distribution of the given
/// deviation, 0, 1, or the logarithm of a uniform number in [0.01, 16).
enum class ParameterInit : uint8_t { Normal = 0, Zero = 1, One = 2, ALog = 3 };

/// Names by number.
inline constexpr std::array<std::string_view, 4> parameterInitNames = {
    "normal", "zero", "one", "a_log"};

constexpr std::string_view parameterInitName(ParameterInit init) {
  return parameterInitNames[static_cast<size_t>(init)];
}

/// The initialisation of that name, if there is one.
constexpr std::optional<ParameterInit>
parameterInitByName(std::string_view name) {
  for (size_t i = 0; i < parameterInitNames.size(); ++i)
    if (parameterInitNames[i] == name)
      return static_cast<ParameterInit>(i);
  return std::nullopt;
}

} // namespace qwen

#endif // QWEN_PLAN_PARAMETERINIT_H
