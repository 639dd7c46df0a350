//===- Crc32c.cpp - CRC-32C checksums -------------------------------------===//

#include "runtime/metrics/Crc32c.h"

#include <array>

using namespace qwen;

static constexpr std::array<uint32_t, 256> makeTable() {
  // The Castagnoli polynomial with its bits reversed.
  constexpr uint32_t polynomial = 0x82f63b78;
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit)
      value = value & 1 ? (value >> 1) ^ polynomial : value >> 1;
    table[byte] = value;
  }
  return table;
}

uint32_t qwen::crc32c(std::string_view data) {
  static constexpr std::array<uint32_t, 256> table = makeTable();
  uint32_t crc = ~0u;
  for (unsigned char byte : data)
    crc = table[(crc ^ byte) & 0xff] ^ (crc >> 8);
  return ~crc;
}

uint32_t qwen::maskedCrc32c(std::string_view data) {
  uint32_t crc = crc32c(data);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}
