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

/// Lets `print` write a temporary file beside `path` and renames it; "-" and
/// special files are written directly.
inline Status writeOutput(const std::string &path,
                          llvm::function_ref<void(llvm::raw_ostream &)> print) {
  auto write = [&](llvm::raw_ostream &os) -> llvm::Error {
    print(os);
    os.flush();
    // Left in the stream, the error would end the process in its destructor.
    if (os.get_kind() == llvm::raw_ostream::OStreamKind::OK_FDStream) {
      auto &file = static_cast<llvm::raw_fd_ostream &>(os);
      std::error_code error = file.error();
      file.clear_error();
      return llvm::errorCodeToError(error);
    }
    return llvm::Error::success();
  };
  auto writeDirectly = [&]() -> llvm::Error {
    std::error_code error;
    llvm::raw_fd_ostream os(path, error);
    return error ? llvm::errorCodeToError(error) : write(os);
  };
  // A rename would put a file in the place of a device or pipe.
  llvm::sys::fs::file_status status;
  bool special = path != "-" && !llvm::sys::fs::status(path, status) &&
                 !llvm::sys::fs::is_regular_file(status);
  llvm::Error error =
      special ? writeDirectly() : llvm::writeToOutput(path, write);
  if (!error)
    return okStatus();
  std::error_code code = llvm::errorToErrorCode(std::move(error));
  return makeError(StatusCode::IoError, "cannot write '{}': {}", path,
                   code.message());
}

} // namespace qwen

#endif // QWEN_TOOLS_WRITEOUTPUT_H
