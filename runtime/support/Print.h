//===- Print.h - Text for people -------------------------------*- C++ -*-===//
//
// A log that cannot be written, because its disk is full or its reader is gone,
// is no reason to end the work that it is about: printing never fails. Whoever
// prints a result asks `printError` at the end.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_SUPPORT_PRINT_H
#define QWEN_RUNTIME_SUPPORT_PRINT_H

#include "qwen/Support/Status.h"

#include <cstdio>
#include <string_view>

namespace qwen {

/// Writes text to a stream and flushes it.
void printText(std::FILE *out, std::string_view text);

template <typename... Args>
void print(std::FILE *out, fmt::format_string<Args...> text, Args &&...args) {
  printText(out, fmt::format(text, std::forward<Args>(args)...));
}

/// Flushes a stream; the first error that printing to it met.
Status printError(std::FILE *out, std::string_view name);

} // namespace qwen

#endif // QWEN_RUNTIME_SUPPORT_PRINT_H
