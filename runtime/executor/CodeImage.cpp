//===- CodeImage.cpp - Generated code in this process ---------------------===//
//
// A memory file takes the object's bytes and dlopen maps it.
//
//===----------------------------------------------------------------------===//

#include "runtime/executor/CodeImage.h"
#include "runtime/support/File.h"

#include <cerrno>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

using namespace qwen;

namespace {

Status writeAll(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return makeError(StatusCode::ResourceExhausted,
                       "cannot hold {} bytes of generated code: {}",
                       bytes.size(), systemError(errno));
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return okStatus();
}

} // namespace

StatusOr<CodeImage> CodeImage::load(std::span<const std::byte> object) {
  CodeImage image;
  image.descriptor = memfd_create("qwen-plan-code", MFD_CLOEXEC);
  if (image.descriptor < 0)
    return makeError(StatusCode::IoError,
                     "cannot create a memory file for generated code: {}",
                     systemError(errno));
  QWEN_RETURN_IF_ERROR(writeAll(image.descriptor, object));
  std::string path = fmt::format("/proc/self/fd/{}", image.descriptor);
  image.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!image.handle)
    return dataLoss("cannot load the plan's code: {}", dlerror());
  return image;
}

CodeImage::CodeImage(CodeImage &&other) noexcept { *this = std::move(other); }

CodeImage &CodeImage::operator=(CodeImage &&other) noexcept {
  std::swap(descriptor, other.descriptor);
  std::swap(handle, other.handle);
  return *this;
}

CodeImage::~CodeImage() {
  if (handle)
    dlclose(handle);
  if (descriptor >= 0)
    close(descriptor);
}

StatusOr<void *> CodeImage::find(const std::string &symbol) const {
  void *address = handle ? dlsym(handle, symbol.c_str()) : nullptr;
  if (!address)
    return dataLoss("the plan's code has no function '{}'", symbol);
  return address;
}
