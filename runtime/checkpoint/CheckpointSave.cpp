//===- CheckpointSave.cpp - Writing checkpoint folders --------------------===//

#include "runtime/checkpoint/Cast.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/ShardWriter.h"
#include "runtime/checkpoint/Slices.h"

#include <filesystem>
#include <map>
#include <set>

using namespace qwen;
namespace fs = std::filesystem;

/// The most exact copy of a parameter that there is.
static const Buffer &bestValue(const ParameterView &parameter,
                               FileDType onDisk) {
  // A file type as narrow as the parameter takes the parameter itself, which is
  // the master's rounding already.
  bool wider =
      parameter.master.data && onDisk != fileDTypeOf(parameter.value.dtype);
  return wider ? parameter.master : parameter.value;
}

/// The tensors of a checkpoint that has no predecessor.
static std::vector<TensorSource>
ownTensors(std::span<const ParameterView> parameters) {
  std::vector<TensorSource> tensors;
  for (const ParameterView &parameter : parameters) {
    FileDType dtype = fileDTypeOf(parameter.value.dtype);
    tensors.push_back({{parameter.name, dtype, parameter.shape},
                       {},
                       parameter.value,
                       parameter.memory,
                       parameter.firstElement});
  }
  return tensors;
}

Status qwen::saveParameters(const std::string &directory,
                            const Checkpoint *source,
                            std::span<const ParameterView> parameters,
                            int64_t maxShardBytes, Communicator &ranks) {
  QWEN_RETURN_IF_ERROR(checkSlices(parameters, ranks));
  if (!source)
    return writeShards(directory, "model", ownTensors(parameters),
                       {{"format", "pt"}}, maxShardBytes, ranks);
  std::map<std::string, const ParameterView *> byName;
  for (const ParameterView &parameter : parameters)
    byName[parameter.name] = &parameter;
  std::vector<std::vector<TensorSource>> tensors;
  std::vector<TensorFile> files;
  for (const Checkpoint::Shard &shard : source->shards()) {
    std::vector<TensorSource> &list = tensors.emplace_back();
    for (const StoredTensor &stored : shard.file.tensors()) {
      TensorSource &tensor = list.emplace_back();
      tensor.spec = stored;
      auto it = byName.find(stored.name);
      tensor.isCommon = it == byName.end();
      if (tensor.isCommon) {
        tensor.bytes = stored.data;
        continue;
      }
      const ParameterView &parameter = *it->second;
      tensor.live = bestValue(parameter, stored.dtype);
      tensor.memory = parameter.memory;
      tensor.bytes = parameter.original;
      tensor.firstElement = parameter.firstElement;
    }
    files.push_back(
        {directory + "/" + shard.fileName, list, shard.file.metadata()});
  }
  QWEN_RETURN_IF_ERROR(writeTensors(files, ranks));
  if (source->indexText().empty())
    return okStatus();
  return publishCommonFile(directory + "/model.safetensors.index.json",
                           source->indexText(), ranks);
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
