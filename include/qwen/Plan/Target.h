//===- Target.h - What a plan runs on --------------------------*- C++ -*-===//
//
// The targets of the compiler, which are the targets of the runtime.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_PLAN_TARGET_H
#define QWEN_PLAN_TARGET_H

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace qwen {

enum class TargetKind { Cpu, Cuda };

/// Every target by the name that qwenc takes and a plan records.
inline constexpr std::array<std::pair<std::string_view, TargetKind>, 5>
    targetTable = {{{"x86-64", TargetKind::Cpu},
                    {"x86-64-v2", TargetKind::Cpu},
                    {"x86-64-v3", TargetKind::Cpu},
                    {"x86-64-v4", TargetKind::Cpu},
                    {"sm_90a", TargetKind::Cuda}}};

/// Nothing for a name that is no target.
inline std::optional<TargetKind> targetKind(std::string_view name) {
  for (const auto &[known, kind] : targetTable)
    if (known == name)
      return kind;
  return std::nullopt;
}

/// "x86-64, x86-64-v2, … and sm_90a", for messages.
inline std::string listTargets() {
  std::string text;
  for (size_t i = 0; i < targetTable.size(); ++i) {
    if (i > 0)
      text += i + 1 < targetTable.size() ? ", " : " and ";
    text += targetTable[i].first;
  }
  return text;
}

} // namespace qwen

#endif // QWEN_PLAN_TARGET_H
