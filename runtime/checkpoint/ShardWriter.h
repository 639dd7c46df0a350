//===- ShardWriter.h - Tensors to one or several files ---------*- C++ -*-===//
//
// Writes lists of tensors that lie in the memory of a model, in a mapped file,
// or partly in both, without a second copy of them.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_CHECKPOINT_SHARDWRITER_H
#define QWEN_RUNTIME_CHECKPOINT_SHARDWRITER_H

#include "qwen/Plan/Buffer.h"
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/support/DeviceMemory.h"

namespace qwen {

/// One tensor to write: `live`, which lies in `memory`, converted to the type
/// of `spec`, with `bytes` as its original (see storeElements); or, where
/// `live` is null, `bytes` as they are.
struct TensorSource {
  TensorSpec spec;
  std::span<const std::byte> bytes;
  ConstBuffer live;
  DeviceMemory *memory = &hostMemory();
};

/// Writes one file with the tensors in the given order.
Status writeTensors(const std::string &path,
                    std::span<const TensorSource> tensors,
                    const SafetensorsMetadata &metadata);

/// Writes `<stem>.safetensors`, or shards of at most `maxShardBytes` with an
/// index where there is more than that.
Status writeShards(const std::string &directory, const std::string &stem,
                   std::vector<TensorSource> tensors,
                   const SafetensorsMetadata &metadata, int64_t maxShardBytes);

} // namespace qwen

#endif // QWEN_RUNTIME_CHECKPOINT_SHARDWRITER_H
