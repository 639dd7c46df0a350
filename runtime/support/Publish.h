//===- Publish.h - Atomic publication of files and folders -----*- C++ -*-===//
//
// Work is written under a temporary name beside its target, forced to the disk
// and renamed. A reader therefore sees the old state or the new one, never a
// part, whenever the process dies.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_SUPPORT_PUBLISH_H
#define QWEN_RUNTIME_SUPPORT_PUBLISH_H

#include "qwen/Support/Status.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace qwen {

/// Writes `text` to `path` by temporary file and rename; a device or pipe is
/// written to, as a rename would put a file in its place.
Status publishFile(const std::string &path, std::string_view text);

/// A folder under construction. Its files are written below `path()`;
/// `publish` gives it its final name. Destroyed before that, it is removed.
class PendingDirectory {
public:
  /// Creates `<parent>/.tmp-<name>-<process id>`. A leftover of that name is
  /// emptied.
  static StatusOr<PendingDirectory> create(const std::string &parent,
                                           const std::string &name);
  PendingDirectory(PendingDirectory &&other) noexcept;
  PendingDirectory &operator=(PendingDirectory &&) = delete;
  ~PendingDirectory();

  const std::string &path() const { return temporary; }
  /// Forces everything to the disk and renames to `<parent>/<name>`. An
  /// existing folder of that name is replaced; it stays readable under its own
  /// name or a `.old-` name until the new one is in place.
  Status publish();

private:
  PendingDirectory() = default;

  std::string parentPath, finalName, temporary;
};

/// Creates `path` (and its parents) where needed and proves that a file can be
/// written in it; leaves nothing but the folder itself.
Status ensureWritableDirectory(const std::string &path);

/// The same question without creating anything: is `path` a writable folder,
/// or is its nearest existing ancestor one?
Status checkWritableDirectory(const std::string &path);

/// Bytes free on the disk of `path`, which need not be there yet;
/// ResourceExhausted where `needed` bytes do not fit.
StatusOr<int64_t> checkFreeSpace(const std::string &path, int64_t needed);

/// Removes a folder with its content; a folder that is not there is fine.
Status removeDirectory(const std::string &path);

/// Forces a folder's entries to the disk.
Status syncDirectory(const std::string &path);

} // namespace qwen

#endif // QWEN_RUNTIME_SUPPORT_PUBLISH_H
