//===- CheckpointSave.cpp - Writing checkpoint folders --------------------===//

#include "runtime/checkpoint/Cast.h"
#include "runtime/checkpoint/Checkpoint.h"
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

Status qwen::planWeights(const Checkpoint *source,
                         std::span<const ParameterView> parameters,
                         int64_t maxShardBytes, CheckpointFiles &files) {
  if (!source)
    return files.addShards("model", ownTensors(parameters), {{"format", "pt"}},
                           maxShardBytes);
  std::map<std::string, const ParameterView *> byName;
  for (const ParameterView &parameter : parameters)
    byName[parameter.name] = &parameter;
  for (const Checkpoint::Shard &shard : source->shards()) {
    std::vector<TensorSource> tensors;
    for (const StoredTensor &stored : shard.file.tensors()) {
      TensorSource &tensor = tensors.emplace_back();
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
    QWEN_RETURN_IF_ERROR(
        files.add(shard.fileName, std::move(tensors), shard.file.metadata()));
  }
  if (!source->indexText().empty())
    files.texts.emplace_back("model.safetensors.index.json",
                             source->indexText());
  return okStatus();
}

Status qwen::planCheckpoint(const Checkpoint *source,
                            std::span<const ParameterView> parameters,
                            int64_t maxShardBytes, CheckpointFiles &files) {
  QWEN_RETURN_IF_ERROR(planWeights(source, parameters, maxShardBytes, files));
  return planOptimizerState(source, parameters, maxShardBytes, files);
}

StatusOr<int64_t>
qwen::checkpointBytes(const Checkpoint *source,
                      std::span<const ParameterView> parameters) {
  std::vector<ParameterView> loaded(parameters.begin(), parameters.end());
  if (source)
    for (ParameterView &parameter : loaded)
      parameter.original = originalOf(*source->find(parameter.name), parameter);
  CheckpointFiles files;
  QWEN_RETURN_IF_ERROR(
      planCheckpoint(source, loaded, defaultShardBytes, files));
  return files.bytes();
}

/// Writes planned files on all ranks; an error of one is an error of all.
static Status writeTogether(const std::string &directory, const Status &planned,
                            const CheckpointFiles &files, Communicator &ranks) {
  Status ready = planned;
  if (ready.ok() && ranks.rank() == 0)
    ready = reserveFiles(directory, files);
  QWEN_RETURN_IF_ERROR(ranks.agree(ready));
  return ranks.agree(fillFiles(directory, files, ranks.rank(), ranks.size()));
}

Status qwen::saveParameters(const std::string &directory,
                            const Checkpoint *source,
                            std::span<const ParameterView> parameters,
                            int64_t maxShardBytes, Communicator &ranks) {
  QWEN_RETURN_IF_ERROR(checkSlices(parameters, ranks));
  CheckpointFiles files;
  Status planned = planWeights(source, parameters, maxShardBytes, files);
  return writeTogether(directory, planned, files, ranks);
}

Status qwen::saveOptimizerState(const std::string &directory,
                                const Checkpoint &checkpointTypes,
                                std::span<const ParameterView> parameters,
                                int64_t maxShardBytes, Communicator &ranks) {
  CheckpointFiles files;
  Status planned =
      planOptimizerState(&checkpointTypes, parameters, maxShardBytes, files);
  return writeTogether(directory, planned, files, ranks);
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

void SideFiles::merge(SideFiles other) {
  for (auto &[name, content] : other.files)
    files.insert_or_assign(name, std::move(content));
}

int64_t SideFiles::bytes() const {
  int64_t bytes = 0;
  for (auto &[name, content] : files)
    if (auto *file = std::get_if<MappedFile>(&content))
      bytes += int64_t(file->bytes().size());
    else
      bytes += int64_t(std::get<std::string>(content).size());
  return bytes;
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
