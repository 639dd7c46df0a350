//===- CodeImage.h - Generated code in this process ------------*- C++ -*-===//
//
// Hands a plan's shared object to the dynamic loader without a file on disk.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_EXECUTOR_CODEIMAGE_H
#define QWEN_RUNTIME_EXECUTOR_CODEIMAGE_H

#include "qwen/Support/Status.h"

#include <cstddef>
#include <span>
#include <string>

namespace qwen {

/// A loaded shared object; unloaded when the object dies.
class CodeImage {
public:
  /// No code at all: every symbol is unknown.
  CodeImage() = default;
  static StatusOr<CodeImage> load(std::span<const std::byte> object);
  CodeImage(CodeImage &&other) noexcept;
  CodeImage &operator=(CodeImage &&other) noexcept;
  ~CodeImage();

  /// Address of an exported function.
  StatusOr<void *> find(const std::string &symbol) const;

private:
  /// Stays open: the loader knows objects by their paths, and that of a memory
  /// file is its descriptor's number.
  int descriptor = -1;
  void *handle = nullptr;
};

} // namespace qwen

#endif // QWEN_RUNTIME_EXECUTOR_CODEIMAGE_H
