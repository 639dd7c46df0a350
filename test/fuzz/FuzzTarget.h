//===- FuzzTarget.h - Hostile input for a reader ---------------*- C++ -*-===//
//
// A fuzz target defines `run`. It is linked with libFuzzer (tools/fuzz.sh), and
// in every build with ReplayMain.cpp, which feeds it the files of its corpus.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_FUZZ_FUZZTARGET_H
#define QWEN_TEST_FUZZ_FUZZTARGET_H

#include "qwen/Support/Status.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace qwen::fuzz {

enum class Outcome {
  Accepted,
  Refused,
  /// Refused so early that the fuzzer does better to start from others.
  Hopeless,
};

/// Feeds one input to the code under test. Aborts where a promise of that code
/// is broken.
Outcome run(std::span<const uint8_t> input);

/// Prints the reason and aborts.
[[noreturn]] void breakPromise(std::string_view what, std::string_view detail);

/// Aborts unless the text is one line that a person can read.
void expectOneLine(std::string_view message);

/// A file that is only in memory, for readers that take a path.
class MemoryFile {
public:
  explicit MemoryFile(std::span<const uint8_t> content);
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;
  ~MemoryFile();
  const std::string &path() const { return name; }

private:
  int descriptor;
  std::string name;
};

} // namespace qwen::fuzz

#endif // QWEN_TEST_FUZZ_FUZZTARGET_H
