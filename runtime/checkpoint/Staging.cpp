//===- Staging.cpp - Tensors that lie on a device, in pieces --------------===//

#include "runtime/checkpoint/Staging.h"

#include "qwen/Plan/Contiguous.h"
#include "runtime/checkpoint/Cast.h"

#include <algorithm>

using namespace qwen;

/// Bytes of a piece: long enough that a copy's start does not count.
static constexpr size_t stagedPieceBytes = size_t(64) << 20;

/// `count` elements at `data`.
static Buffer pieceAt(DType dtype, int64_t count, void *data) {
  return {contiguousType(dtype, {count}), data};
}

std::span<std::byte> Staging::buffer(int64_t bytes) {
  size_t wanted = std::min(static_cast<size_t>(bytes), stagedPieceBytes);
  std::span<std::byte> fast = memory->staging();
  if (!fast.empty())
    return fast.first(std::min(fast.size(), wanted));
  if (own.size() < wanted)
    own.resize(wanted);
  return own;
}

Status Staging::read(const ConstBuffer &live, const ReadPiece &use) {
  int64_t size = dtypeBytes(live.dtype), count = live.elements();
  auto *data = static_cast<const std::byte *>(live.data);
  if (memory->isHost())
    return use(0, pieceAt(live.dtype, count, const_cast<std::byte *>(data)));
  std::span<std::byte> staged = buffer(count * size);
  int64_t most = static_cast<int64_t>(staged.size()) / size;
  for (int64_t first = 0; first < count; first += most) {
    int64_t n = std::min(most, count - first);
    QWEN_RETURN_IF_ERROR(
        memory->copyToHost(staged.data(), data + first * size, n * size));
    QWEN_RETURN_IF_ERROR(use(first, pieceAt(live.dtype, n, staged.data())));
  }
  return okStatus();
}

Status Staging::write(const Buffer &live, const WritePiece &fill) {
  int64_t size = dtypeBytes(live.dtype), count = live.elements();
  auto *data = static_cast<std::byte *>(live.data);
  if (memory->isHost())
    return fill(0, pieceAt(live.dtype, count, data));
  std::span<std::byte> staged = buffer(count * size);
  int64_t most = static_cast<int64_t>(staged.size()) / size;
  for (int64_t first = 0; first < count; first += most) {
    int64_t n = std::min(most, count - first);
    QWEN_RETURN_IF_ERROR(fill(first, pieceAt(live.dtype, n, staged.data())));
    QWEN_RETURN_IF_ERROR(
        memory->copyToDevice(data + first * size, staged.data(), n * size));
  }
  return okStatus();
}

Status Staging::load(FileDType from, std::span<const std::byte> file,
                     const Buffer &live) {
  auto size = static_cast<size_t>(fileDTypeBytes(from));
  return write(live, [&](int64_t first, const Buffer &piece) {
    loadElements(from,
                 file.subspan(static_cast<size_t>(first) * size,
                              static_cast<size_t>(piece.elements()) * size),
                 piece);
    return okStatus();
  });
}

StatusOr<int64_t> Staging::firstNonFinite(const ConstBuffer &live) {
  int64_t found = -1;
  QWEN_RETURN_IF_ERROR(read(live, [&](int64_t first, const ConstBuffer &piece) {
    // The pieces come in order: the first finding stays.
    if (int64_t at = found < 0 ? qwen::firstNonFinite(piece) : -1; at >= 0)
      found = first + at;
    return okStatus();
  }));
  return found;
}

StatusOr<double> Staging::mean(const ConstBuffer &live) {
  double sum = 0;
  QWEN_RETURN_IF_ERROR(read(live, [&](int64_t first, const ConstBuffer &piece) {
    sum += meanOf(piece) * double(piece.elements());
    return okStatus();
  }));
  return live.elements() ? sum / double(live.elements()) : 0;
}
