//===- File.h - Reading and writing whole files ----------------*- C++ -*-===//
//
// Memory-mapped input and checked output. Every failure carries the path and
// the reason of the operating system.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_SUPPORT_FILE_H
#define QWEN_RUNTIME_SUPPORT_FILE_H

#include "qwen/Support/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace qwen {

/// A file mapped read-only for as long as the object lives.
class MappedFile {
public:
  static StatusOr<MappedFile> open(const std::string &path);
  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {begin, length}; }
  const std::string &path() const { return name; }

private:
  MappedFile() = default;
  void unmap();

  const std::byte *begin = nullptr;
  size_t length = 0;
  std::string name;
};

/// A file being written, front to back or at given places. Without `close` what
/// was written counts as unfinished; the object does not remove it.
class OutputFile {
public:
  /// Creates `path`, or empties it.
  static StatusOr<OutputFile> create(const std::string &path);
  /// Opens `path` to write after its end; creates it where it does not exist.
  static StatusOr<OutputFile> append(const std::string &path);
  /// Opens a file that exists, to write in it by `writeAt`.
  static StatusOr<OutputFile> openExisting(const std::string &path);
  OutputFile(OutputFile &&other) noexcept;
  OutputFile &operator=(OutputFile &&other) noexcept;
  ~OutputFile();

  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text);
  /// Gives a new file its size, so that others can write in it too. An error
  /// where the disk has no room for it.
  Status reserve(int64_t bytes);
  /// Writes from byte `offset` on.
  Status writeAt(int64_t offset, std::span<const std::byte> bytes);
  /// Forces the content to the disk and closes. No write may follow.
  Status close();

private:
  OutputFile() = default;
  static StatusOr<OutputFile> open(const std::string &path, int flags);

  int descriptor = -1;
  std::string name;
};

/// Content of a text file of at most `maxBytes`.
StatusOr<std::string> readTextFile(const std::string &path,
                                   size_t maxBytes = size_t(1) << 30);

/// Copies a file's bytes and forces them to the disk.
Status copyFile(const std::string &from, const std::string &to);

/// Error text of the operating system for `errorNumber`.
std::string systemError(int errorNumber);

/// IoError (or NotFound, ResourceExhausted where errno says so): "cannot
/// <action> '<path>': <reason>".
Status systemStatus(std::string_view action, const std::string &path,
                    int errorNumber);

} // namespace qwen

#endif // QWEN_RUNTIME_SUPPORT_FILE_H
