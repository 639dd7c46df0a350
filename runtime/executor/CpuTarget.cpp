//===- CpuTarget.cpp - Can this processor run a plan? ---------------------===//
//
// Compares the x86-64 level of a plan with the processor's.
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/Executor.h"

using namespace qwen;

namespace {

/// Highest level of this processor.
std::string_view cpuLevel() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4"))
    return "x86-64-v4";
  if (__builtin_cpu_supports("x86-64-v3"))
    return "x86-64-v3";
  if (__builtin_cpu_supports("x86-64-v2"))
    return "x86-64-v2";
  return "x86-64";
}

} // namespace

Status qwen::checkCpuTarget(std::string_view target, std::string_view who) {
  // Level names grow with the level ("x86-64" is a prefix of all others).
  std::string_view level = cpuLevel();
  if (target.starts_with("x86-64") && target <= level)
    return okStatus();
  return makeError(StatusCode::FailedPrecondition,
                   "{} a processor of level {}; this one has {}", who, target,
                   level);
}
