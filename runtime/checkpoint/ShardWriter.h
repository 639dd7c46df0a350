//===- ShardWriter.h - Tensors to one or several files ---------*- C++ -*-===//
//
// Writes lists of tensors that lie in the memory of a model, in a mapped file,
// or partly in both, without a second copy of them. Ranks that share a model
// write the same files together, each its part in place.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_CHECKPOINT_SHARDWRITER_H
#define QWEN_RUNTIME_CHECKPOINT_SHARDWRITER_H

#include "qwen/Plan/Buffer.h"
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/collectives/Communicator.h"
#include "runtime/support/DeviceMemory.h"

namespace qwen {

/// One tensor to write: `live`, which lies in `memory`, converted to the type
/// of `spec`, with `bytes` as its original (see storeElements); or, where
/// `live` is null, `bytes` as they are.
struct TensorSource {
  TensorSpec spec; ///< of the whole
  std::span<const std::byte> bytes;
  ConstBuffer live;
  DeviceMemory *memory = &hostMemory();
  /// Index in the whole of the first element that `live` and `bytes` hold. The
  /// other elements are those of other ranks.
  int64_t firstElement = 0;
  /// Every rank has the whole in `bytes`; the ranks share the writing.
  bool isCommon = false;
};

/// A file with its tensors in the order of their data.
struct TensorFile {
  std::string path;
  std::span<const TensorSource> tensors;
  SafetensorsMetadata metadata;
};

/// Writes the files. Room for all of them is taken before the first tensor is
/// written. Every rank calls it with the same files and its own slices; an
/// error of one is an error of all.
Status writeTensors(std::span<const TensorFile> files, Communicator &ranks);

/// Writes `<stem>.safetensors`, or shards of at most `maxShardBytes` with an
/// index where there is more than that; on all ranks as writeTensors.
Status writeShards(const std::string &directory, const std::string &stem,
                   std::vector<TensorSource> tensors,
                   const SafetensorsMetadata &metadata, int64_t maxShardBytes,
                   Communicator &ranks);

/// Publishes a text file; the first rank writes it for all.
Status publishCommonFile(const std::string &path, std::string_view text,
                         Communicator &ranks);

} // namespace qwen

#endif // QWEN_RUNTIME_CHECKPOINT_SHARDWRITER_H
