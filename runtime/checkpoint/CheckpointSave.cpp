//===- CheckpointSave.cpp - Writing checkpoint folders --------------------===//

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/ShardWriter.h"

#include "runtime/checkpoint/Cast.h"
#include "runtime/checkpoint/Staging.h"
#include "runtime/support/Json.h"
#include "runtime/support/Publish.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

using namespace qwen;
namespace fs = std::filesystem;

/// Elements converted at a time.
static constexpr int64_t pieceElements = int64_t(4) << 20;

/// Writes elements in this process's memory; `original` belongs to them.
static Status writeElements(SafetensorsWriter &writer, const ConstBuffer &live,
                            FileDType to, std::span<const std::byte> original) {
  int64_t count = live.elements();
  if (to == fileDTypeOf(live.dtype))
    return writer.write({live.as<std::byte>(), size_t(live.bytes())});
  int64_t size = fileDTypeBytes(to);
  std::vector<std::byte> piece(
      static_cast<size_t>(std::min(count, pieceElements) * size));
  for (int64_t first = 0; first < count; first += pieceElements) {
    int64_t n = std::min(pieceElements, count - first);
    storeElements(live, first, n, to, original, piece.data());
    QWEN_RETURN_IF_ERROR(
        writer.write(std::span(piece).first(static_cast<size_t>(n * size))));
  }
  return okStatus();
}

/// Writes one tensor's data.
static Status writeTensor(SafetensorsWriter &writer,
                          const TensorSource &tensor) {
  if (!tensor.live.data)
    return writer.write(tensor.bytes);
  FileDType to = tensor.spec.dtype;
  auto size = static_cast<size_t>(fileDTypeBytes(to));
  Staging staging(*tensor.memory);
  return staging.read(
      tensor.live, [&](int64_t first, const ConstBuffer &piece) {
        auto original = tensor.bytes;
        if (!original.empty())
          original = original.subspan(size_t(first) * size,
                                      size_t(piece.elements()) * size);
        return writeElements(writer, piece, to, original);
      });
}

Status qwen::writeTensors(const std::string &path,
                          std::span<const TensorSource> tensors,
                          const SafetensorsMetadata &metadata) {
  std::vector<TensorSpec> specs;
  for (const TensorSource &tensor : tensors)
    specs.push_back(tensor.spec);
  QWEN_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                        SafetensorsWriter::create(path, specs, metadata));
  for (const TensorSource &tensor : tensors)
    QWEN_RETURN_IF_ERROR(writeTensor(writer, tensor));
  return writer.close();
}

Status qwen::writeShards(const std::string &directory, const std::string &stem,
                         std::vector<TensorSource> tensors,
                         const SafetensorsMetadata &metadata,
                         int64_t maxShardBytes) {
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
  if (ranges.size() == 1)
    return writeTensors(fmt::format("{}/{}.safetensors", directory, stem), all,
                        metadata);
  std::map<std::string, std::string> weightMap;
  for (size_t shard = 0; shard < ranges.size(); ++shard) {
    std::string name = fmt::format("{}-{:05}-of-{:05}.safetensors", stem,
                                   shard + 1, ranges.size());
    auto [first, last] = ranges[shard];
    auto part = all.subspan(first, last - first);
    for (const TensorSource &tensor : part)
      weightMap[tensor.spec.name] = name;
    QWEN_RETURN_IF_ERROR(writeTensors(directory + "/" + name, part, metadata));
  }
  Json index = {{"metadata", {{"total_size", total}}},
                {"weight_map", weightMap}};
  return publishFile(
      fmt::format("{}/{}.safetensors.index.json", directory, stem),
      index.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

/// The most exact copy of a parameter that there is.
static const Buffer &bestValue(const ParameterView &parameter,
                               FileDType onDisk) {
  // A file type as narrow as the parameter takes the parameter itself, which is
  // the master's rounding already.
  bool wider =
      parameter.master.data && onDisk != fileDTypeOf(parameter.value.dtype);
  return wider ? parameter.master : parameter.value;
}

Status qwen::saveParameters(const std::string &directory,
                            const Checkpoint *source,
                            std::span<const ParameterView> parameters,
                            int64_t maxShardBytes) {
  std::map<std::string, const ParameterView *> byName;
  for (const ParameterView &parameter : parameters)
    byName[parameter.name] = &parameter;
  if (!source) {
    std::vector<TensorSource> tensors;
    for (const ParameterView &parameter : parameters) {
      FileDType dtype = fileDTypeOf(parameter.value.dtype);
      tensors.push_back({{parameter.name, dtype, parameter.shape},
                         {},
                         parameter.value,
                         parameter.memory});
    }
    return writeShards(directory, "model", std::move(tensors),
                       {{"format", "pt"}}, maxShardBytes);
  }
  for (const Checkpoint::Shard &shard : source->shards()) {
    std::vector<TensorSource> tensors;
    for (const StoredTensor &stored : shard.file.tensors()) {
      TensorSource tensor{stored, stored.data, {}};
      if (auto it = byName.find(stored.name); it != byName.end()) {
        tensor.live = bestValue(*it->second, stored.dtype);
        tensor.memory = it->second->memory;
        tensor.bytes = it->second->original;
      }
      tensors.push_back(std::move(tensor));
    }
    QWEN_RETURN_IF_ERROR(writeTensors(directory + "/" + shard.fileName, tensors,
                                      shard.file.metadata()));
  }
  if (source->indexText().empty())
    return okStatus();
  return publishFile(directory + "/model.safetensors.index.json",
                     source->indexText());
}

Status SideFiles::addFolder(const std::string &directory) {
  static const std::set<std::string> extensions = {".json", ".jinja", ".txt",
                                                   ".model", ".tiktoken"};
  std::error_code error;
  std::vector<fs::path> paths;
  for (fs::directory_iterator it(directory, error), end; it != end && !error;
       it.increment(error))
    paths.push_back(it->path());
  if (error)
    return makeError(StatusCode::IoError, "cannot list '{}': {}", directory,
                     error.message());
  for (const fs::path &path : paths) {
    std::string name = path.filename().string();
    bool wanted = extensions.count(path.extension().string()) ||
                  name.starts_with("LICENSE");
    bool ours = name.ends_with(".index.json") || name == "trainer_state.json" ||
                name[0] == '.';
    if (wanted && !ours && fs::is_regular_file(path, error))
      QWEN_RETURN_IF_ERROR(addFile(path.string(), name));
  }
  return okStatus();
}

Status SideFiles::addFile(const std::string &path, const std::string &name) {
  QWEN_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  files.insert_or_assign(name, std::move(file));
  return okStatus();
}

void SideFiles::addText(const std::string &name, const std::string &text) {
  files.insert_or_assign(name, text);
}

void SideFiles::merge(SideFiles other) {
  for (auto &[name, content] : other.files)
    files.insert_or_assign(name, std::move(content));
}

Status SideFiles::writeTo(const std::string &directory) const {
  for (auto &[name, content] : files) {
    QWEN_ASSIGN_OR_RETURN(OutputFile out,
                          OutputFile::create(directory + "/" + name));
    if (auto *file = std::get_if<MappedFile>(&content))
      QWEN_RETURN_IF_ERROR(out.write(file->bytes()));
    else
      QWEN_RETURN_IF_ERROR(out.write(std::get<std::string>(content)));
    QWEN_RETURN_IF_ERROR(out.close());
  }
  return okStatus();
}
