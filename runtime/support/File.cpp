//===- File.cpp - Reading and writing whole files -------------------------===//

#include "runtime/support/File.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <system_error>
#include <unistd.h>
#include <utility>

using namespace qwen;

std::string qwen::systemError(int errorNumber) {
  return std::generic_category().message(errorNumber);
}

Status qwen::systemStatus(std::string_view action, const std::string &path,
                          int errorNumber) {
  StatusCode code = StatusCode::IoError;
  if (errorNumber == ENOENT)
    code = StatusCode::NotFound;
  if (errorNumber == ENOSPC || errorNumber == EDQUOT || errorNumber == ENOMEM)
    code = StatusCode::ResourceExhausted;
  return makeError(code, "cannot {} '{}': {}", action, path,
                   systemError(errorNumber));
}

StatusOr<MappedFile> MappedFile::open(const std::string &path) {
  // A pipe that nobody writes to must not be waited for.
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    return systemStatus("open", path, errno);
  struct stat info{};
  if (::fstat(descriptor, &info) != 0) {
    Status status = systemStatus("inspect", path, errno);
    ::close(descriptor);
    return status;
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(descriptor);
    return invalidArgument("'{}' is not a regular file", path);
  }
  MappedFile file;
  file.name = path;
  file.length = static_cast<size_t>(info.st_size);
  // An empty file cannot be mapped; its empty content needs no mapping.
  if (file.length > 0) {
    void *address =
        ::mmap(nullptr, file.length, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (address == MAP_FAILED) {
      Status status = systemStatus("map", path, errno);
      ::close(descriptor);
      return status;
    }
    file.begin = static_cast<const std::byte *>(address);
  }
  ::close(descriptor);
  return file;
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : begin(std::exchange(other.begin, nullptr)),
      length(std::exchange(other.length, 0)), name(std::move(other.name)) {}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  if (this != &other) {
    unmap();
    begin = std::exchange(other.begin, nullptr);
    length = std::exchange(other.length, 0);
    name = std::move(other.name);
  }
  return *this;
}

MappedFile::~MappedFile() { unmap(); }

void MappedFile::unmap() {
  if (begin)
    ::munmap(const_cast<std::byte *>(begin), length);
  begin = nullptr;
}

StatusOr<OutputFile> OutputFile::open(const std::string &path, int flags) {
  OutputFile file;
  file.name = path;
  file.descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0644);
  if (file.descriptor < 0)
    return systemStatus(flags & O_CREAT ? "create" : "open", path, errno);
  return file;
}

StatusOr<OutputFile> OutputFile::create(const std::string &path) {
  return open(path, O_CREAT | O_TRUNC);
}

StatusOr<OutputFile> OutputFile::append(const std::string &path) {
  return open(path, O_CREAT | O_APPEND);
}

StatusOr<OutputFile> OutputFile::openExisting(const std::string &path) {
  return open(path, 0);
}

OutputFile::OutputFile(OutputFile &&other) noexcept
    : descriptor(std::exchange(other.descriptor, -1)),
      name(std::move(other.name)) {}

OutputFile &OutputFile::operator=(OutputFile &&other) noexcept {
  if (this != &other) {
    if (descriptor >= 0)
      ::close(descriptor);
    descriptor = std::exchange(other.descriptor, -1);
    name = std::move(other.name);
  }
  return *this;
}

OutputFile::~OutputFile() {
  if (descriptor >= 0)
    ::close(descriptor);
}

Status OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return systemStatus("write", name, errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return okStatus();
}

Status OutputFile::write(std::string_view text) {
  return write(std::as_bytes(std::span(text.data(), text.size())));
}

Status OutputFile::reserve(int64_t bytes) {
  auto failed = [&](int reason) {
    return systemStatus(fmt::format("write {} bytes to", bytes), name, reason);
  };
  if (bytes == 0)
    return okStatus();
  int result = 0;
  do
    result = ::fallocate(descriptor, 0, 0, bytes);
  while (result != 0 && errno == EINTR);
  if (result == 0)
    return okStatus();
  if (errno != EOPNOTSUPP && errno != ENOSYS)
    return failed(errno);
  // A file system that cannot set room aside can tell how much there is.
  struct statvfs disk{};
  if (::fstatvfs(descriptor, &disk) == 0 && disk.f_frsize > 0 &&
      uint64_t(bytes) / disk.f_frsize > disk.f_bavail)
    return failed(ENOSPC);
  if (::ftruncate(descriptor, bytes) != 0)
    return failed(errno);
  return okStatus();
}

Status OutputFile::writeAt(int64_t offset, std::span<const std::byte> bytes) {
  constexpr size_t most = size_t(64) << 20; // an interrupt ends a piece early
  while (!bytes.empty()) {
    ssize_t written = ::pwrite(descriptor, bytes.data(),
                               std::min(bytes.size(), most), offset);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return systemStatus("write", name, errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += written;
  }
  return okStatus();
}

Status OutputFile::close() {
  int closing = std::exchange(descriptor, -1);
  // EINVAL: a pipe or device that has nothing to synchronise.
  if (::fsync(closing) != 0 && errno != EINVAL) {
    Status status = systemStatus("sync", name, errno);
    ::close(closing);
    return status;
  }
  if (::close(closing) != 0)
    return systemStatus("close", name, errno);
  return okStatus();
}

StatusOr<std::string> qwen::readTextFile(const std::string &path,
                                         size_t maxBytes) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return systemStatus("open", path, errno);
  // Read to the end, as files of /proc have no size.
  std::string text;
  std::array<char, 1 << 16> piece;
  ssize_t count = 0;
  do {
    count = ::read(descriptor, piece.data(), piece.size());
    if (count > 0)
      text.append(piece.data(), static_cast<size_t>(count));
  } while ((count > 0 && text.size() <= maxBytes) ||
           (count < 0 && errno == EINTR));
  int reason = errno;
  ::close(descriptor);
  if (count < 0)
    return systemStatus("read", path, reason);
  if (text.size() > maxBytes)
    return invalidArgument("'{}' has more than the {} bytes expected at most",
                           path, maxBytes);
  return text;
}

Status qwen::copyFile(const std::string &from, const std::string &to) {
  QWEN_ASSIGN_OR_RETURN(MappedFile source, MappedFile::open(from));
  QWEN_ASSIGN_OR_RETURN(OutputFile target, OutputFile::create(to));
  QWEN_RETURN_IF_ERROR(target.write(source.bytes()));
  return target.close();
}
