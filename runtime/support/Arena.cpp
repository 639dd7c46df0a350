//===- Arena.cpp - Large blocks of memory ---------------------------------===//
//
// Linux mappings and the question how much memory is left.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Arena.h"
#include "runtime/support/File.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <optional>
#include <sys/mman.h>

using namespace qwen;

StatusOr<Arena> Arena::allocate(int64_t bytes, bool hugePages) {
  Arena arena;
  if (bytes == 0)
    return arena;
  void *address =
      mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED)
    return makeError(StatusCode::ResourceExhausted,
                     "cannot allocate {} bytes: {}", bytes, systemError(errno));
  arena.begin = static_cast<std::byte *>(address);
  arena.length = static_cast<size_t>(bytes);
  // Advice only: without huge pages the arena works as well, a little slower.
  if (hugePages)
    (void)madvise(address, arena.length, MADV_HUGEPAGE);
  return arena;
}

Arena::Arena(Arena &&other) noexcept { *this = std::move(other); }

Arena &Arena::operator=(Arena &&other) noexcept {
  std::swap(begin, other.begin);
  std::swap(length, other.length);
  return *this;
}

Arena::~Arena() {
  if (begin)
    munmap(begin, length);
}

namespace {

/// The number in a file that holds only one, such as those of a control group.
std::optional<int64_t> readNumber(const char *path) {
  auto text = readTextFile(path, 4096);
  if (!text.ok())
    return std::nullopt;
  int64_t value = 0;
  auto [end, error] =
      std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc())
    return std::nullopt; // "max": no limit
  return value;
}

/// A line "MemAvailable:   123 kB" of /proc/meminfo, in bytes.
int64_t meminfo(const std::string &text, std::string_view key) {
  size_t at = text.find(key);
  if (at == std::string::npos)
    return 0;
  at = text.find_first_of("0123456789", at);
  int64_t kib = 0;
  if (at != std::string::npos)
    std::from_chars(text.data() + at, text.data() + text.size(), kib);
  return kib * 1024;
}

} // namespace

StatusOr<int64_t> qwen::availableMemory() {
  QWEN_ASSIGN_OR_RETURN(std::string text, readTextFile("/proc/meminfo", 65536));
  int64_t bytes = meminfo(text, "MemAvailable:") + meminfo(text, "SwapFree:");
  auto limit = readNumber("/sys/fs/cgroup/memory.max");
  auto used = readNumber("/sys/fs/cgroup/memory.current");
  if (limit && used)
    bytes = std::min(bytes, std::max<int64_t>(0, *limit - *used));
  return bytes;
}
