//===- Staging.h - Tensors that lie on a device, in pieces -----*- C++ -*-===//
//
// Reads and writes a tensor of a model piece by piece, so that the memory of
// this process holds one piece of what lies on a device. What lies in this
// process's memory already is one piece, in its place, without a copy.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_CHECKPOINT_STAGING_H
#define QWEN_RUNTIME_CHECKPOINT_STAGING_H

#include "qwen/Plan/Buffer.h"
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/support/DeviceMemory.h"

#include <functional>
#include <vector>

namespace qwen {

/// Access to the contiguous tensors of one DeviceMemory.
class Staging {
public:
  explicit Staging(DeviceMemory &memory) : memory(&memory) {}

  /// A part of a tensor as a contiguous buffer of rank 1 in this process, and
  /// the index of its first element.
  using ReadPiece =
      std::function<Status(int64_t first, const ConstBuffer &piece)>;
  using WritePiece = std::function<Status(int64_t first, const Buffer &piece)>;

  /// Shows the tensor front to back. An error ends it.
  Status read(const ConstBuffer &live, const ReadPiece &use);
  /// Has the tensor written front to back; `fill` writes every element of its
  /// piece, whose content is undefined before. An error ends it and leaves
  /// that piece and those behind it as they were on a device.
  Status write(const Buffer &live, const WritePiece &fill);

  /// loadElements (Cast.h) for a tensor of this memory.
  Status load(FileDType from, std::span<const std::byte> file,
              const Buffer &live);
  /// firstNonFinite (Cast.h) for a tensor of this memory.
  StatusOr<int64_t> firstNonFinite(const ConstBuffer &live);
  /// meanOf (Cast.h) for a tensor of this memory.
  StatusOr<double> mean(const ConstBuffer &live);

private:
  /// Room for a piece of at most `bytes` bytes.
  std::span<std::byte> buffer(int64_t bytes);

  DeviceMemory *memory;
  std::vector<std::byte> own; ///< where `memory` has no staging memory
};

} // namespace qwen

#endif // QWEN_RUNTIME_CHECKPOINT_STAGING_H
