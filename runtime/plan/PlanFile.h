//===- PlanFile.h - Frame of a plan file -----------------------*- C++ -*-===//
//
// A plan file is a FlatBuffer followed by 16 bytes: a mark and the hash of
// everything before it. FNV-1a is a bijection of each byte, so any single
// changed byte changes the hash.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_PLAN_PLANFILE_H
#define QWEN_RUNTIME_PLAN_PLANFILE_H

#include "qwen/Support/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace qwen {

inline constexpr std::string_view planTrailerMark = "QWPLHASH";
inline constexpr size_t planTrailerBytes = 16;

/// FNV-1a, 64 bits.
uint64_t fnv1a(std::span<const std::byte> bytes);

/// The trailer for a finished FlatBuffer.
std::string planTrailer(std::span<const std::byte> flatBuffer);

/// The FlatBuffer part of a file, after its hash was found right; the hash
/// goes to `hash`.
StatusOr<std::span<const std::byte>>
openPlanFrame(std::span<const std::byte> file, uint64_t &hash);

} // namespace qwen

#endif // QWEN_RUNTIME_PLAN_PLANFILE_H
