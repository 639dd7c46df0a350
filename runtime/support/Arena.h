//===- Arena.h - Large blocks of memory ------------------------*- C++ -*-===//
//
// One anonymous mapping a block: page-aligned, zeros, returned to the system
// when the object dies.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_SUPPORT_ARENA_H
#define QWEN_RUNTIME_SUPPORT_ARENA_H

#include "qwen/Support/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace qwen {

class Arena {
public:
  /// ResourceExhausted where the system refuses. Zero bytes are legal.
  static StatusOr<Arena> allocate(int64_t bytes, bool hugePages);
  Arena(Arena &&other) noexcept;
  Arena &operator=(Arena &&other) noexcept;
  ~Arena();

  std::byte *data() const { return begin; }
  std::span<std::byte> bytes() const { return {begin, length}; }

private:
  Arena() = default;
  std::byte *begin = nullptr;
  size_t length = 0;
};

/// Bytes that this process can still get: what the system calls available,
/// within the limit of the process's memory control group.
StatusOr<int64_t> availableMemory();

} // namespace qwen

#endif // QWEN_RUNTIME_SUPPORT_ARENA_H
