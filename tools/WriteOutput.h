//===- WriteOutput.h - Output files of the compiler's tools -----*- C++ -*-===//
//
// A file appears whole or not at all, and a full disk is an error.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TOOLS_WRITEOUTPUT_H
#define QWEN_TOOLS_WRITEOUTPUT_H

#include "qwen/Support/Status.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

namespace qwen {

/// An output must not replace its input.
inline Status checkOutput(const std::string &input, const std::string &output) {
  bool isSame = false;
  if (output.empty() || output == "-" ||
      llvm::sys::fs::equivalent(input, output, isSame) || !isSame)
    return okStatus();
  return invalidArgument("'{}' is the input and the output", output);
}

using PrintFunction = llvm::function_ref<void(llvm::raw_ostream &)>;

/// What `print` writes, and the first error in doing so.
inline llvm::Error printTo(llvm::raw_fd_ostream &os, PrintFunction print) {
  print(os);
  os.flush();
  // Left in the stream, the error would end the process in its destructor.
  std::error_code error = os.error();
  os.clear_error();
  return llvm::errorCodeToError(error);
}

/// A device or pipe stays what it is.
inline llvm::Error printInPlace(const std::string &path, PrintFunction print) {
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  return error ? llvm::errorCodeToError(error) : printTo(os, print);
}

/// The file beside its place is removed where anything goes wrong, be it by a
/// signal.
inline llvm::Error printAndRename(const std::string &path,
                                  PrintFunction print) {
  auto file = llvm::sys::fs::TempFile::create(
      path + ".tmp-%%%%%%", llvm::sys::fs::all_read | llvm::sys::fs::all_write);
  if (!file)
    return file.takeError();
  llvm::raw_fd_ostream os(file->FD, /*shouldClose=*/false);
  if (llvm::Error error = printTo(os, print))
    return llvm::joinErrors(std::move(error), file->discard());
  return file->keep(path);
}

/// Lets `print` write a temporary file beside `path` and renames it; "-" and
/// special files are written directly.
inline Status writeOutput(const std::string &path, PrintFunction print) {
  llvm::sys::fs::file_status status;
  bool isSpecial = path != "-" && !llvm::sys::fs::status(path, status) &&
                   !llvm::sys::fs::is_regular_file(status);
  llvm::Error error = path == "-" ? printTo(llvm::outs(), print)
                      : isSpecial ? printInPlace(path, print)
                                  : printAndRename(path, print);
  if (!error)
    return okStatus();
  std::error_code code = llvm::errorToErrorCode(std::move(error));
  return makeError(StatusCode::IoError, "cannot write '{}': {}", path,
                   code.message());
}

/// Whether everything printed to the standard output has arrived. The library
/// would end the process by a message of its own.
inline Status checkStandardOutput() {
  auto nothing = [](llvm::raw_ostream &) {};
  if (llvm::Error error = printTo(llvm::outs(), nothing))
    return makeError(StatusCode::IoError,
                     "cannot write to the standard output: {}",
                     llvm::errorToErrorCode(std::move(error)).message());
  return okStatus();
}

} // namespace qwen

#endif // QWEN_TOOLS_WRITEOUTPUT_H
