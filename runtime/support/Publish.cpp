//===- Publish.cpp - Atomic publication of files and folders --------------===//

#include "runtime/support/Publish.h"

#include "runtime/support/File.h"
#include "runtime/support/Format.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <limits>
#include <unistd.h>
#include <utility>

using namespace qwen;
namespace fs = std::filesystem;

Status qwen::syncDirectory(const std::string &path) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    return systemStatus("open folder", path, errno);
  int result = ::fsync(descriptor);
  int reason = errno;
  ::close(descriptor);
  // Some network file systems cannot synchronise a folder and say EINVAL.
  if (result != 0 && reason != EINVAL)
    return systemStatus("sync folder", path, reason);
  return okStatus();
}

static std::string parentOf(const std::string &path) {
  std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

static Status renamePath(const std::string &from, const std::string &to) {
  if (std::rename(from.c_str(), to.c_str()) != 0)
    return systemStatus("publish", to, errno);
  return okStatus();
}

static Status writeFile(const std::string &path, std::string_view text) {
  QWEN_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path));
  QWEN_RETURN_IF_ERROR(file.write(text));
  return file.close();
}

Status qwen::publishFile(const std::string &path, std::string_view text) {
  std::error_code error;
  fs::file_status old = fs::status(path, error);
  if (fs::exists(old) && !fs::is_regular_file(old))
    return writeFile(path, text);
  std::string temporary = fmt::format("{}.tmp-{}", path, ::getpid());
  Status status = writeFile(temporary, text);
  if (status.ok())
    status = renamePath(temporary, path);
  if (!status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  return syncDirectory(parentOf(path));
}

StatusOr<PendingDirectory> PendingDirectory::create(const std::string &parent,
                                                    const std::string &name) {
  std::string path = fmt::format("{}/.tmp-{}-{}", parent, name, ::getpid());
  QWEN_RETURN_IF_ERROR(removeDirectory(path));
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    return systemStatus("create folder", path, error.value());
  PendingDirectory pending;
  pending.parentPath = parent;
  pending.finalName = name;
  pending.temporary = path;
  return pending;
}

PendingDirectory::PendingDirectory(PendingDirectory &&other) noexcept
    : parentPath(std::move(other.parentPath)),
      finalName(std::move(other.finalName)),
      temporary(std::exchange(other.temporary, {})) {}

PendingDirectory::~PendingDirectory() {
  std::error_code ignored;
  if (!temporary.empty())
    fs::remove_all(temporary, ignored);
}

Status PendingDirectory::publish() {
  QWEN_RETURN_IF_ERROR(syncDirectory(temporary));
  std::string target = parentPath + "/" + finalName;
  std::string old;
  // rename() replaces only empty folders, so an old one steps aside first.
  std::error_code error;
  if (fs::exists(fs::symlink_status(target, error))) {
    old = fmt::format("{}/.old-{}-{}", parentPath, finalName, ::getpid());
    QWEN_RETURN_IF_ERROR(removeDirectory(old));
    QWEN_RETURN_IF_ERROR(renamePath(target, old));
  }
  if (Status status = renamePath(temporary, target); !status.ok()) {
    if (!old.empty())
      (void)std::rename(old.c_str(), target.c_str());
    return status;
  }
  temporary.clear();
  QWEN_RETURN_IF_ERROR(syncDirectory(parentPath));
  return old.empty() ? okStatus() : removeDirectory(old);
}

/// `path`, or its nearest ancestor that is there.
static StatusOr<fs::path> existingPart(const std::string &path) {
  std::error_code error;
  fs::path existing = fs::absolute(path, error).lexically_normal();
  if (error)
    return systemStatus("resolve", path, error.value());
  while (!fs::exists(existing, error) && existing.has_relative_path())
    existing = existing.parent_path();
  return existing;
}

StatusOr<int64_t> qwen::checkFreeSpace(const std::string &path,
                                       int64_t needed) {
  QWEN_ASSIGN_OR_RETURN(fs::path existing, existingPart(path));
  std::error_code error;
  fs::space_info space = fs::space(existing, error);
  if (error)
    return systemStatus("ask for the free space of", existing.string(),
                        error.value());
  auto free = static_cast<int64_t>(std::min<uintmax_t>(
      space.available, std::numeric_limits<int64_t>::max()));
  if (needed > free)
    return makeError(StatusCode::ResourceExhausted,
                     "'{}': {} are needed, {} are free on its "
                     "disk",
                     path, formatBytes(double(needed)),
                     formatBytes(double(free)));
  return free;
}

Status qwen::checkWritableDirectory(const std::string &path) {
  QWEN_ASSIGN_OR_RETURN(fs::path existing, existingPart(path));
  std::error_code error;
  if (!fs::is_directory(existing, error))
    return invalidArgument("cannot write to '{}': '{}' is not a folder", path,
                           existing.string());
  if (::access(existing.c_str(), W_OK | X_OK) != 0)
    return systemStatus("write to", path, errno);
  return okStatus();
}

Status qwen::ensureWritableDirectory(const std::string &path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    return systemStatus("create folder", path, error.value());
  // Permission bits do not tell of a full or read-only file system; a file
  // does.
  std::string probe = fmt::format("{}/.probe-{}", path, ::getpid());
  QWEN_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(probe));
  Status status = file.write("x");
  ::unlink(probe.c_str());
  return status;
}

Status qwen::removeDirectory(const std::string &path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error)
    return systemStatus("remove", path, error.value());
  return okStatus();
}
