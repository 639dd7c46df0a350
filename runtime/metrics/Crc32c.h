//===- Crc32c.h - CRC-32C checksums ----------------------------*- C++ -*-===//
//
// The Castagnoli CRC, and the masked form that record files use so that the
// checksum of data that holds checksums stays meaningful.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_METRICS_CRC32C_H
#define QWEN_RUNTIME_METRICS_CRC32C_H

#include <cstdint>
#include <string_view>

namespace qwen {

/// CRC-32C of `data` (RFC 3720, appendix B.4).
uint32_t crc32c(std::string_view data);

/// Rotated right by 15 bits plus a constant, as in TFRecord files.
uint32_t maskedCrc32c(std::string_view data);

} // namespace qwen

#endif // QWEN_RUNTIME_METRICS_CRC32C_H
