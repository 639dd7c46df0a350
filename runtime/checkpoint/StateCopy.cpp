//===- StateCopy.cpp - The state of a model, for writing it later ---------===//

#include "runtime/checkpoint/StateCopy.h"

#include "runtime/checkpoint/Staging.h"
#include "runtime/support/File.h"
#include "runtime/support/Format.h"

#include <algorithm>
#include <array>
#include <cstring>

using namespace qwen;

/// Copies start at cache lines.
static int64_t roundedBytes(const Buffer &buffer) {
  constexpr int64_t line = 64;
  return buffer.data ? (buffer.bytes() + line - 1) / line * line : 0;
}

static constexpr std::array stateBuffers = {
    &ParameterView::value, &ParameterView::master, &ParameterView::moment1,
    &ParameterView::moment2};

/// Whether the copies of all ranks of this machine fit its memory.
static Status checkFits(std::span<const int64_t> bytes,
                        const Communicator &ranks) {
  int64_t needed = 0;
  for (int rank = 0; rank < ranks.size(); ++rank)
    if (ranks.isLocal(rank))
      needed += bytes[size_t(rank)];
  if (needed == 0)
    return okStatus();
  QWEN_ASSIGN_OR_RETURN(int64_t available, availableMemory());
  // A part stays for what is written and for others.
  if (needed <= available - available / 16)
    return okStatus();
  return makeError(StatusCode::ResourceExhausted,
                   "a copy of the state needs {} of memory on this machine, {} "
                   "are available",
                   formatBytes(double(needed)), formatBytes(double(available)));
}

Status StateCopy::makeRoom(int64_t bytes, Communicator &ranks) {
  bool isRoom = memory && int64_t(memory->bytes().size()) >= bytes;
  int64_t needed = isRoom ? 0 : bytes;
  std::vector<int64_t> all(static_cast<size_t>(ranks.size()));
  QWEN_RETURN_IF_ERROR(ranks.allGather(&needed, all.data(), sizeof(needed)));
  QWEN_RETURN_IF_ERROR(ranks.agree(checkFits(all, ranks)));
  auto allocate = [&]() -> Status {
    if (isRoom)
      return okStatus();
    memory.reset();
    QWEN_ASSIGN_OR_RETURN(memory, Arena::allocate(bytes, /*hugePages=*/true));
    return okStatus();
  };
  return ranks.agree(allocate());
}

/// On all threads: one does not reach the speed of the memory.
static void copyBytes(std::byte *to, const void *from, int64_t bytes) {
  constexpr int64_t piece = int64_t(1) << 20;
  auto *begin = static_cast<const std::byte *>(from);
#pragma omp parallel for schedule(static) if (bytes > piece)
  for (int64_t at = 0; at < bytes; at += piece)
    std::memcpy(to + at, begin + at,
                static_cast<size_t>(std::min(piece, bytes - at)));
}

Status StateCopy::copyAll(std::span<const ParameterView> parameters) {
  views.assign(parameters.begin(), parameters.end());
  std::byte *next = memory->data();
  for (ParameterView &view : views) {
    Staging staging(*view.memory);
    for (Buffer ParameterView::*member : stateBuffers) {
      Buffer &buffer = view.*member;
      if (!buffer.data)
        continue;
      int64_t size = dtypeBytes(buffer.dtype);
      QWEN_RETURN_IF_ERROR(
          staging.read(buffer, [&](int64_t first, const ConstBuffer &piece) {
            copyBytes(next + first * size, piece.data, piece.bytes());
            return okStatus();
          }));
      buffer.data = next;
      next += roundedBytes(buffer);
    }
    view.memory = &hostMemory();
  }
  return okStatus();
}

Status StateCopy::take(std::span<const ParameterView> parameters,
                       Communicator &ranks) {
  int64_t bytes = 64; // a slice of no elements has an address too
  for (const ParameterView &parameter : parameters)
    for (Buffer ParameterView::*member : stateBuffers)
      bytes += roundedBytes(parameter.*member);
  QWEN_RETURN_IF_ERROR(makeRoom(bytes, ranks));
  return ranks.agree(copyAll(parameters));
}
