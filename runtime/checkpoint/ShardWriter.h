//===- ShardWriter.h - Tensors to one or several files ---------*- C++ -*-===//
//
// Writes lists of tensors that lie in the memory of a model, in a mapped file,
// or partly in both, without a second copy of them. Ranks that share a model
// write the same files together, each its part in place: the first one makes
// them in their sizes, then all fill them.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_CHECKPOINT_SHARDWRITER_H
#define QWEN_RUNTIME_CHECKPOINT_SHARDWRITER_H

#include "qwen/Plan/Buffer.h"
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/support/DeviceMemory.h"

#include <stop_token>
#include <string>
#include <utility>
#include <vector>

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

/// A file of tensors, planned down to each tensor's place.
struct TensorFile {
  std::string name; ///< in the checkpoint's folder
  std::vector<TensorSource> tensors;
  SafetensorsLayout layout;
};

/// Files of a checkpoint that are the same on all ranks but for the slices.
struct CheckpointFiles {
  std::vector<TensorFile> tensors;
  /// Name and content of indices, which the first rank writes.
  std::vector<std::pair<std::string, std::string>> texts;

  /// Adds the file `name` with the tensors in the order of their data.
  Status add(const std::string &name, std::vector<TensorSource> sources,
             const SafetensorsMetadata &metadata);
  /// Adds `<stem>.safetensors`, or shards of at most `maxShardBytes` with an
  /// index where there is more than that.
  Status addShards(const std::string &stem, std::vector<TensorSource> sources,
                   const SafetensorsMetadata &metadata, int64_t maxShardBytes);
  /// Of all files together.
  int64_t bytes() const;
};

/// Creates the files in their sizes, so that what does not fit the disk is
/// known before a tensor is written. For the first rank.
Status reserveFiles(const std::string &directory, const CheckpointFiles &files);

/// Writes a rank's part of files that exist in their sizes, and forces it to
/// the disk. Says nothing to other ranks. `stop` ends it early, by an error.
Status fillFiles(const std::string &directory, const CheckpointFiles &files,
                 int rank, int ranks, const std::stop_token &stop = {});

} // namespace qwen

#endif // QWEN_RUNTIME_CHECKPOINT_SHARDWRITER_H
