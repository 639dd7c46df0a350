//===- Print.cpp - Text for people ----------------------------------------===//

#include "runtime/support/Print.h"

#include "runtime/support/File.h"

#include <cerrno>

using namespace qwen;

/// The errno of the first failure; a stream keeps only that there was one.
static int firstError = 0;

static void flush(std::FILE *out) {
  if (std::fflush(out) != 0 && firstError == 0)
    firstError = errno;
}

void qwen::printText(std::FILE *out, std::string_view text) {
  // After a failure too: a full disk may have room again.
  std::fwrite(text.data(), 1, text.size(), out);
  if (std::ferror(out) && firstError == 0)
    firstError = errno;
  flush(out);
}

Status qwen::printError(std::FILE *out, std::string_view name) {
  flush(out);
  if (!std::ferror(out))
    return okStatus();
  return makeError(StatusCode::IoError, "cannot write to {}: {}", name,
                   systemError(firstError));
}
