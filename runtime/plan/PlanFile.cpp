//===- PlanFile.cpp - Frame of a plan file --------------------------------===//
//
// Writing and checking the trailer of a plan file.
//
//===----------------------------------------------------------------------===//

#include "runtime/plan/PlanFile.h"

#include <cstring>

using namespace qwen;

uint64_t qwen::fnv1a(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (std::byte byte : bytes)
    hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3u;
  return hash;
}

std::string qwen::planTrailer(std::span<const std::byte> flatBuffer) {
  uint64_t hash = fnv1a(flatBuffer);
  std::string trailer(planTrailerMark);
  for (int i = 0; i < 8; ++i)
    trailer.push_back(static_cast<char>(hash >> (8 * i)));
  return trailer;
}

StatusOr<std::span<const std::byte>>
qwen::openPlanFrame(std::span<const std::byte> file, uint64_t &hash) {
  // The root offset and the identifier are the first 8 bytes.
  if (file.size() < planTrailerBytes + 8)
    return dataLoss("not a plan: {} bytes", file.size());
  if (file.size() > (size_t(1) << 30))
    return dataLoss("not a plan: {} bytes, more than 1 GiB", file.size());
  if (std::memcmp(file.data() + 4, "QWPL", 4) != 0)
    return dataLoss("not a plan: the identifier 'QWPL' is missing");
  auto body = file.first(file.size() - planTrailerBytes);
  const std::byte *trailer = body.data() + body.size();
  if (std::memcmp(trailer, planTrailerMark.data(), planTrailerMark.size()) != 0)
    return dataLoss("the plan is cut: its end mark is missing");
  hash = 0;
  for (int i = 0; i < 8; ++i)
    hash |= static_cast<uint64_t>(trailer[8 + i]) << (8 * i);
  uint64_t found = fnv1a(body);
  if (found != hash)
    return dataLoss("the plan is corrupt: its content hash is {:016x}, it says "
                    "{:016x}",
                    found, hash);
  return body;
}
