//===- ShardWriter.cpp - Tensors to one or several files ------------------===//

#include "runtime/checkpoint/ShardWriter.h"

#include "runtime/checkpoint/Cast.h"
#include "runtime/checkpoint/Staging.h"
#include "runtime/support/Json.h"
#include "runtime/support/Publish.h"

#include <algorithm>
#include <map>

using namespace qwen;

/// Elements converted at a time.
static constexpr int64_t pieceElements = int64_t(4) << 20;
/// Bytes written between two looks at whether to stop.
static constexpr size_t writtenPieceBytes = size_t(64) << 20;

namespace {
/// A file that is being filled by one of several ranks.
struct Filling {
  OutputFile &file;
  int64_t rank, ranks;
  const std::stop_token &stop;

  Status write(int64_t offset, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      if (stop.stop_requested())
        return makeError(StatusCode::FailedPrecondition,
                         "given up before it was written");
      auto piece = bytes.first(std::min(bytes.size(), writtenPieceBytes));
      QWEN_RETURN_IF_ERROR(file.writeAt(offset, piece));
      bytes = bytes.subspan(piece.size());
      offset += static_cast<int64_t>(piece.size());
    }
    return okStatus();
  }
};
} // namespace

/// Writes elements in this process's memory from byte `offset` of the file on;
/// `original` belongs to them.
static Status writeElements(Filling &file, int64_t offset,
                            const ConstBuffer &live, FileDType to,
                            std::span<const std::byte> original) {
  int64_t count = live.elements();
  if (to == fileDTypeOf(live.dtype))
    return file.write(offset, {live.as<std::byte>(), size_t(live.bytes())});
  int64_t size = fileDTypeBytes(to);
  std::vector<std::byte> piece(
      static_cast<size_t>(std::min(count, pieceElements) * size));
  for (int64_t first = 0; first < count; first += pieceElements) {
    int64_t n = std::min(pieceElements, count - first);
    storeElements(live, first, n, to, original, piece.data());
    QWEN_RETURN_IF_ERROR(
        file.write(offset + first * size,
                   std::span(piece).first(static_cast<size_t>(n * size))));
  }
  return okStatus();
}

/// Writes a rank's part of bytes that all ranks have.
static Status writePart(Filling &file, int64_t offset,
                        std::span<const std::byte> bytes) {
  // In whole pages, so that small tensors stay in one piece.
  constexpr int64_t page = 4096;
  auto count = static_cast<int64_t>(bytes.size());
  int64_t pages = (count + page - 1) / page;
  auto begin = [&](int64_t rank) {
    return std::min(pages * rank / file.ranks * page, count);
  };
  int64_t first = begin(file.rank), last = begin(file.rank + 1);
  return file.write(offset + first,
                    bytes.subspan(size_t(first), size_t(last - first)));
}

/// Writes a rank's part of one tensor's data, which begins at byte `offset`.
static Status writeTensor(Filling &file, int64_t offset,
                          const TensorSource &tensor) {
  if (tensor.isCommon)
    return writePart(file, offset, tensor.bytes);
  FileDType to = tensor.spec.dtype;
  int64_t size = fileDTypeBytes(to);
  offset += tensor.firstElement * size;
  if (!tensor.live.data)
    return file.write(offset, tensor.bytes);
  Staging staging(*tensor.memory);
  return staging.read(
      tensor.live, [&](int64_t first, const ConstBuffer &piece) {
        auto original = tensor.bytes;
        if (!original.empty())
          original = original.subspan(size_t(first * size),
                                      size_t(piece.elements() * size));
        return writeElements(file, offset + first * size, piece, to, original);
      });
}

Status CheckpointFiles::add(const std::string &name,
                            std::vector<TensorSource> sources,
                            const SafetensorsMetadata &metadata) {
  std::vector<TensorSpec> specs;
  for (const TensorSource &tensor : sources)
    specs.push_back(tensor.spec);
  QWEN_ASSIGN_OR_RETURN(SafetensorsLayout layout,
                        SafetensorsLayout::create(specs, metadata));
  tensors.push_back({name, std::move(sources), std::move(layout)});
  return okStatus();
}

Status CheckpointFiles::addShards(const std::string &stem,
                                  std::vector<TensorSource> sources,
                                  const SafetensorsMetadata &metadata,
                                  int64_t maxShardBytes) {
  // Wide elements first keeps every tensor aligned in a mapping.
  std::stable_sort(sources.begin(), sources.end(), [](auto &a, auto &b) {
    return fileDTypeBytes(a.spec.dtype) > fileDTypeBytes(b.spec.dtype);
  });
  std::vector<std::vector<TensorSource>> shards(1);
  int64_t total = 0, inShard = 0;
  for (TensorSource &tensor : sources) {
    int64_t bytes = tensor.spec.bytes().value_or(0);
    if (!shards.back().empty() && inShard + bytes > maxShardBytes) {
      shards.emplace_back();
      inShard = 0;
    }
    shards.back().push_back(std::move(tensor));
    inShard += bytes;
    total += bytes;
  }
  if (shards.size() == 1)
    return add(stem + ".safetensors", std::move(shards[0]), metadata);
  std::map<std::string, std::string> weightMap;
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    std::string name = fmt::format("{}-{:05}-of-{:05}.safetensors", stem,
                                   shard + 1, shards.size());
    for (const TensorSource &tensor : shards[shard])
      weightMap[tensor.spec.name] = name;
    QWEN_RETURN_IF_ERROR(add(name, std::move(shards[shard]), metadata));
  }
  Json index = {{"metadata", {{"total_size", total}}},
                {"weight_map", weightMap}};
  texts.emplace_back(stem + ".safetensors.index.json",
                     index.dump(2, ' ', false, Json::error_handler_t::replace) +
                         "\n");
  return okStatus();
}

int64_t CheckpointFiles::bytes() const {
  int64_t bytes = 0;
  for (const TensorFile &file : tensors)
    bytes += file.layout.bytes;
  for (const auto &[name, text] : texts)
    bytes += int64_t(text.size());
  return bytes;
}

Status qwen::reserveFiles(const std::string &directory,
                          const CheckpointFiles &files) {
  for (const TensorFile &file : files.tensors) {
    QWEN_ASSIGN_OR_RETURN(OutputFile out,
                          OutputFile::create(directory + "/" + file.name));
    QWEN_RETURN_IF_ERROR(out.reserve(file.layout.bytes));
  }
  return okStatus();
}

/// Writes a rank's parts of a file.
static Status fillFile(const TensorFile &planned, Filling &file) {
  const SafetensorsLayout &layout = planned.layout;
  if (file.rank == 0)
    QWEN_RETURN_IF_ERROR(file.write(0, std::as_bytes(std::span(layout.head))));
  for (size_t i = 0; i < planned.tensors.size(); ++i)
    QWEN_RETURN_IF_ERROR(
        writeTensor(file, layout.offsets[i], planned.tensors[i]));
  return okStatus();
}

Status qwen::fillFiles(const std::string &directory,
                       const CheckpointFiles &files, int rank, int ranks,
                       const std::stop_token &stop) {
  for (const TensorFile &planned : files.tensors) {
    QWEN_ASSIGN_OR_RETURN(OutputFile out, OutputFile::openExisting(
                                              directory + "/" + planned.name));
    Filling file{out, rank, ranks, stop};
    QWEN_RETURN_IF_ERROR(fillFile(planned, file));
    QWEN_RETURN_IF_ERROR(out.close());
  }
  if (rank != 0)
    return okStatus();
  for (const auto &[name, text] : files.texts)
    QWEN_RETURN_IF_ERROR(publishFile(directory + "/" + name, text));
  return okStatus();
}
