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

/// Writes elements in this process's memory from byte `offset` of the file on;
/// `original` belongs to them.
static Status writeElements(OutputFile &file, int64_t offset,
                            const ConstBuffer &live, FileDType to,
                            std::span<const std::byte> original) {
  int64_t count = live.elements();
  if (to == fileDTypeOf(live.dtype))
    return file.writeAt(offset, {live.as<std::byte>(), size_t(live.bytes())});
  int64_t size = fileDTypeBytes(to);
  std::vector<std::byte> piece(
      static_cast<size_t>(std::min(count, pieceElements) * size));
  for (int64_t first = 0; first < count; first += pieceElements) {
    int64_t n = std::min(pieceElements, count - first);
    storeElements(live, first, n, to, original, piece.data());
    QWEN_RETURN_IF_ERROR(
        file.writeAt(offset + first * size,
                     std::span(piece).first(static_cast<size_t>(n * size))));
  }
  return okStatus();
}

/// Writes a rank's part of bytes that all ranks have.
static Status writePart(OutputFile &file, int64_t offset,
                        std::span<const std::byte> bytes,
                        const Communicator &ranks) {
  // In whole pages, so that small tensors stay in one piece.
  constexpr int64_t page = 4096;
  auto count = static_cast<int64_t>(bytes.size());
  int64_t pages = (count + page - 1) / page;
  auto begin = [&](int64_t rank) {
    return std::min(pages * rank / ranks.size() * page, count);
  };
  int64_t first = begin(ranks.rank()), last = begin(ranks.rank() + 1);
  return file.writeAt(offset + first,
                      bytes.subspan(size_t(first), size_t(last - first)));
}

/// Writes a rank's part of one tensor's data, which begins at byte `offset`.
static Status writeTensor(OutputFile &file, int64_t offset,
                          const TensorSource &tensor,
                          const Communicator &ranks) {
  if (tensor.isCommon)
    return writePart(file, offset, tensor.bytes, ranks);
  FileDType to = tensor.spec.dtype;
  int64_t size = fileDTypeBytes(to);
  offset += tensor.firstElement * size;
  if (!tensor.live.data)
    return file.writeAt(offset, tensor.bytes);
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

/// Where everything lies in each file.
static StatusOr<std::vector<SafetensorsLayout>>
planLayouts(std::span<const TensorFile> files) {
  std::vector<SafetensorsLayout> layouts;
  for (const TensorFile &file : files) {
    std::vector<TensorSpec> specs;
    for (const TensorSource &tensor : file.tensors)
      specs.push_back(tensor.spec);
    QWEN_ASSIGN_OR_RETURN(SafetensorsLayout layout,
                          SafetensorsLayout::create(specs, file.metadata));
    layouts.push_back(std::move(layout));
  }
  return layouts;
}

/// Writes a rank's parts of a file that exists in its size.
static Status fillFile(const TensorFile &file, const SafetensorsLayout &layout,
                       const Communicator &ranks) {
  QWEN_ASSIGN_OR_RETURN(OutputFile out, OutputFile::openExisting(file.path));
  if (ranks.rank() == 0)
    QWEN_RETURN_IF_ERROR(out.writeAt(0, std::as_bytes(std::span(layout.head))));
  for (size_t i = 0; i < file.tensors.size(); ++i)
    QWEN_RETURN_IF_ERROR(
        writeTensor(out, layout.offsets[i], file.tensors[i], ranks));
  return out.close();
}

Status qwen::writeTensors(std::span<const TensorFile> files,
                          Communicator &ranks) {
  auto layouts = planLayouts(files);
  auto reserve = [&]() -> Status {
    if (!layouts.ok() || ranks.rank() != 0)
      return layouts.status();
    for (size_t i = 0; i < files.size(); ++i) {
      QWEN_ASSIGN_OR_RETURN(OutputFile out, OutputFile::create(files[i].path));
      QWEN_RETURN_IF_ERROR(out.reserve((*layouts)[i].bytes));
    }
    return okStatus();
  };
  QWEN_RETURN_IF_ERROR(ranks.agree(reserve()));
  auto fill = [&]() -> Status {
    for (size_t i = 0; i < files.size(); ++i)
      QWEN_RETURN_IF_ERROR(fillFile(files[i], (*layouts)[i], ranks));
    return okStatus();
  };
  return ranks.agree(fill());
}

Status qwen::publishCommonFile(const std::string &path, std::string_view text,
                               Communicator &ranks) {
  return ranks.agree(ranks.rank() == 0 ? publishFile(path, text) : okStatus());
}

Status qwen::writeShards(const std::string &directory, const std::string &stem,
                         std::vector<TensorSource> tensors,
                         const SafetensorsMetadata &metadata,
                         int64_t maxShardBytes, Communicator &ranks) {
  // Wide elements first keeps every tensor aligned in a mapping.
  std::stable_sort(tensors.begin(), tensors.end(), [](auto &a, auto &b) {
    return fileDTypeBytes(a.spec.dtype) > fileDTypeBytes(b.spec.dtype);
  });
  std::vector<std::pair<size_t, size_t>> ranges;
  int64_t total = 0, inShard = 0;
  size_t begin = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    int64_t bytes = tensors[i].spec.bytes().value_or(0);
    if (i > begin && inShard + bytes > maxShardBytes) {
      ranges.emplace_back(begin, i);
      begin = i;
      inShard = 0;
    }
    inShard += bytes;
    total += bytes;
  }
  ranges.emplace_back(begin, tensors.size());
  std::span<const TensorSource> all(tensors);
  std::string single = fmt::format("{}/{}.safetensors", directory, stem);
  if (ranges.size() == 1) {
    TensorFile file{single, all, metadata};
    return writeTensors({&file, 1}, ranks);
  }
  std::vector<TensorFile> files;
  std::map<std::string, std::string> weightMap;
  for (size_t shard = 0; shard < ranges.size(); ++shard) {
    std::string name = fmt::format("{}-{:05}-of-{:05}.safetensors", stem,
                                   shard + 1, ranges.size());
    auto [first, last] = ranges[shard];
    auto part = all.subspan(first, last - first);
    for (const TensorSource &tensor : part)
      weightMap[tensor.spec.name] = name;
    files.push_back({directory + "/" + name, part, metadata});
  }
  QWEN_RETURN_IF_ERROR(writeTensors(files, ranks));
  Json index = {{"metadata", {{"total_size", total}}},
                {"weight_map", weightMap}};
  return publishCommonFile(
      single + ".index.json",
      index.dump(2, ' ', false, Json::error_handler_t::replace) + "\n", ranks);
}
