//===- Reasons.h - Why a CUDA kernel does not take operands ----*- C++ -*-===//
//
// What several kernels ask of their operands, each as a part of the line that
// unsupportedReason gives: what was found, then what was expected.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_KERNELS_CUDA_REASONS_H
#define QWEN_RUNTIME_KERNELS_CUDA_REASONS_H

#include "qwen/Plan/Kernels.h"

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>

namespace qwen::cuda {

/// The first reason of a list that is not empty.
inline std::string firstOf(std::initializer_list<std::string> reasons) {
  for (const std::string &reason : reasons)
    if (!reason.empty())
      return reason;
  return {};
}

/// "chunk is 32, expected 64".
template <typename Value>
std::string unexpected(std::string_view name, const Value &value,
                       std::string_view expected) {
  return fmt::format("{} is {}, expected {}", name, value, expected);
}

/// An operand that is not bf16.
inline std::string bf16Reason(std::string_view name,
                              const BufferType &operand) {
  if (operand.dtype == DType::BF16)
    return {};
  return unexpected(name, dtypeName(operand.dtype), "bf16");
}

/// An operand that is neither f32 nor bf16.
inline std::string floatReason(std::string_view name,
                               const BufferType &operand) {
  if (operand.dtype == DType::F32 || operand.dtype == DType::BF16)
    return {};
  return unexpected(name, dtypeName(operand.dtype), "f32 or bf16");
}

/// Whether vectors of 16 bytes may start here; so they may where no address is
/// known yet.
inline bool isAligned(const void *address) {
  return reinterpret_cast<uintptr_t>(address) % 16 == 0;
}

/// Rows of operands that do not start at multiples of 16 bytes.
inline std::string rowStartReason(std::string_view name) {
  return fmt::format("rows of {} do not start at multiples of 16 bytes", name);
}

} // namespace qwen::cuda

#endif // QWEN_RUNTIME_KERNELS_CUDA_REASONS_H
