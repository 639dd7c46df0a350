//===- Format.h - Numbers as people read them ------------------*- C++ -*-===//

#ifndef QWEN_RUNTIME_SUPPORT_FORMAT_H
#define QWEN_RUNTIME_SUPPORT_FORMAT_H

#include <string>

namespace qwen {

/// "1.23 GB", "512 B": powers of 1000.
std::string formatBytes(double bytes);

} // namespace qwen

#endif // QWEN_RUNTIME_SUPPORT_FORMAT_H
