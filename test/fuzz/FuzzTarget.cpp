//===- FuzzTarget.cpp - Hostile input for a reader ------------------------===//

#include "FuzzTarget.h"

#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

using namespace qwen;

void fuzz::breakPromise(std::string_view what, std::string_view detail) {
  fmt::print(stderr, "fuzz: {}: {}\n", what, detail);
  std::fflush(stderr);
  std::abort();
}

void fuzz::expectOneLine(std::string_view message) {
  constexpr size_t longest = 4096;
  if (message.empty() || message.size() > longest)
    breakPromise("an error's text has " + std::to_string(message.size()) +
                     " bytes",
                 message.substr(0, longest));
  for (unsigned char c : message)
    if (c < 0x20 || c == 0x7f)
      breakPromise("an error's text is not one line", message);
}

fuzz::MemoryFile::MemoryFile(std::span<const uint8_t> content)
    : descriptor(::memfd_create("fuzz", MFD_CLOEXEC)),
      name(fmt::format("/proc/self/fd/{}", descriptor)) {
  for (size_t done = 0; descriptor >= 0 && done < content.size();) {
    ssize_t count =
        ::write(descriptor, content.data() + done, content.size() - done);
    if (count <= 0)
      breakPromise("cannot write a file in memory", name);
    done += static_cast<size_t>(count);
  }
  if (descriptor < 0)
    breakPromise("cannot make a file in memory", name);
}

fuzz::MemoryFile::~MemoryFile() { ::close(descriptor); }
