//===- Checkpoint.cpp - Opening and loading checkpoint folders ------------===//

#include "runtime/checkpoint/Checkpoint.h"

#include "qwen/Plan/Contiguous.h"
#include "runtime/checkpoint/Cast.h"
#include "runtime/checkpoint/Slices.h"
#include "runtime/checkpoint/Staging.h"
#include "runtime/support/Json.h"

#include <algorithm>
#include <filesystem>
#include <fmt/ranges.h>
#include <map>
#include <set>

using namespace qwen;
namespace fs = std::filesystem;

std::string qwen::listFirst(std::span<const std::string> names, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(most, names.size()); ++i)
    text += (i ? ", " : "") + printable(names[i]);
  if (names.size() > most)
    text += fmt::format(" and {} more", names.size() - most);
  return text;
}

/// One line out of all disagreements of an index with its shards.
static Status reportMismatches(const std::string &indexPath,
                               std::vector<std::string> problems) {
  constexpr size_t most = 8;
  size_t count = problems.size();
  if (count > most)
    problems.resize(most);
  std::string rest =
      count > most ? fmt::format("; and {} more", count - most) : "";
  return dataLoss("'{}': {} mismatch{}: {}{}", indexPath, count,
                  count == 1 ? "" : "es", fmt::join(problems, "; "), rest);
}

static bool exists(const std::string &path) {
  std::error_code error;
  return fs::exists(path, error);
}

StatusOr<Checkpoint> Checkpoint::open(const std::string &directory,
                                      const std::string &stem) {
  std::error_code error;
  if (!fs::is_directory(directory, error))
    return makeError(StatusCode::NotFound, "no checkpoint folder '{}'",
                     directory);
  Checkpoint checkpoint;
  checkpoint.folder = directory;
  std::string single = fmt::format("{}.safetensors", stem);
  std::string indexPath = fmt::format("{}/{}.index.json", directory, single);
  bool hasSingle = exists(directory + "/" + single);
  bool hasIndex = exists(indexPath);
  if (hasSingle && hasIndex)
    return dataLoss("'{}' has both {} and {}.index.json: which one is meant?",
                    directory, single, single);
  if (hasIndex) {
    if (Status status = checkpoint.openShards(indexPath); !status.ok())
      return status;
    return checkpoint;
  }
  if (!hasSingle)
    return makeError(StatusCode::NotFound,
                     "'{}' has neither {} nor {}.index.json", directory, single,
                     single);
  QWEN_ASSIGN_OR_RETURN(SafetensorsFile file,
                        SafetensorsFile::open(directory + "/" + single));
  checkpoint.parts.push_back({single, std::move(file)});
  return checkpoint;
}

/// The weight_map of an index: tensor name to file name.
static StatusOr<std::map<std::string, std::string>>
readWeightMap(const Json &index, const std::string &indexPath) {
  auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object())
    return dataLoss("'{}': no weight_map", indexPath);
  std::map<std::string, std::string> files;
  for (auto &[name, value] : map->items()) {
    std::string file = value.is_string() ? value.get<std::string>() : "";
    // A name with a folder could reach outside the checkpoint.
    if (file.empty() || file[0] == '.' || file.find('/') != file.npos)
      return dataLoss("'{}': tensor '{}' is not mapped to a plain file name",
                      indexPath, printable(name));
    files[name] = file;
  }
  if (files.empty())
    return dataLoss("'{}': weight_map is empty", indexPath);
  return files;
}

/// Findings where index and shards disagree.
static std::vector<std::string>
compareWithIndex(const std::map<std::string, std::string> &weightMap,
                 const std::vector<Checkpoint::Shard> &shards,
                 const std::set<std::string> &unreadable,
                 std::optional<int64_t> totalSize) {
  std::vector<std::string> problems;
  std::map<std::string, std::string> found;
  int64_t bytes = 0;
  for (const Checkpoint::Shard &shard : shards)
    for (const StoredTensor &tensor : shard.file.tensors()) {
      bytes += static_cast<int64_t>(tensor.data.size());
      std::string shown = printable(tensor.name);
      auto [place, isNew] = found.try_emplace(tensor.name, shard.fileName);
      if (!isNew)
        problems.push_back(fmt::format("'{}' is in {} and in {}", shown,
                                       place->second, shard.fileName));
      else if (!weightMap.count(tensor.name))
        problems.push_back(fmt::format("'{}' of {} is not in the index", shown,
                                       shard.fileName));
    }
  for (auto &[name, file] : weightMap) {
    if (unreadable.count(file))
      continue;
    auto place = found.find(name);
    if (place == found.end())
      problems.push_back(fmt::format("'{}' is not in {} as the index says",
                                     printable(name), file));
    else if (place->second != file)
      problems.push_back(fmt::format("'{}' is in {}, the index says {}",
                                     printable(name), place->second, file));
  }
  if (unreadable.empty() && totalSize && *totalSize != bytes)
    problems.push_back(fmt::format("total_size of the index is {}, the tensors "
                                   "have {} bytes",
                                   *totalSize, bytes));
  return problems;
}

Status Checkpoint::openShards(const std::string &indexPath) {
  QWEN_ASSIGN_OR_RETURN(index, readTextFile(indexPath, size_t(256) << 20));
  QWEN_ASSIGN_OR_RETURN(Json json,
                        parseJsonObject(index, fmt::format("'{}'", indexPath)));
  QWEN_ASSIGN_OR_RETURN(auto weightMap, readWeightMap(json, indexPath));
  std::set<std::string> files, unreadable;
  for (auto &[name, file] : weightMap)
    files.insert(file);
  std::vector<std::string> problems;
  for (const std::string &name : files) {
    auto file = SafetensorsFile::open(folder + "/" + name);
    if (file.ok()) {
      parts.push_back({name, std::move(file).value()});
    } else {
      problems.push_back(file.status().message());
      unreadable.insert(name);
    }
  }
  std::optional<int64_t> totalSize;
  if (auto metadata = json.find("metadata");
      metadata != json.end() && metadata->is_object())
    if (auto size = metadata->find("total_size"); size != metadata->end())
      totalSize = jsonCount(*size);
  for (std::string &problem :
       compareWithIndex(weightMap, parts, unreadable, totalSize))
    problems.push_back(std::move(problem));
  if (!problems.empty())
    return reportMismatches(indexPath, std::move(problems));
  return okStatus();
}

const StoredTensor *Checkpoint::find(const std::string &name) const {
  for (const Shard &shard : parts)
    if (const StoredTensor *tensor = shard.file.find(name))
      return tensor;
  return nullptr;
}

bool qwen::isCarriedTensor(const std::string &name,
                           std::span<const std::string> extraPrefixes) {
  for (const char *prefix : {"mtp.", "model.mtp.", "visual.", "model.visual."})
    if (name.starts_with(prefix))
      return true;
  return std::any_of(extraPrefixes.begin(), extraPrefixes.end(),
                     [&](auto &prefix) { return name.starts_with(prefix); });
}

namespace {
/// Findings of a load, by kind.
struct LoadProblems {
  std::vector<std::string> missing, wrongShape, wrongType, notFinite, extra,
      uselessPrefixes;

  std::vector<std::string> lines() const {
    std::vector<std::string> out;
    auto add = [&](const char *kind, const std::vector<std::string> &names) {
      if (!names.empty())
        out.push_back(
            fmt::format("{} {} ({})", names.size(), kind, listFirst(names)));
    };
    add("missing", missing);
    add("of wrong shape", wrongShape);
    add("of wrong type", wrongType);
    add("with NaN or infinity", notFinite);
    add("not in the plan", extra);
    add("to carry by a prefix that no other tensor has", uselessPrefixes);
    return out;
  }
};
} // namespace

/// True where elements of a file have a NaN or an infinity.
static bool hasNonFinite(FileDType dtype, std::span<const std::byte> data) {
  // Checked as what it is on disk: a cast may overflow only later.
  if (dtype == FileDType::F16) {
    constexpr size_t pieceBytes = size_t(8) << 20;
    std::vector<float> widened(std::min(data.size(), pieceBytes) / 2);
    while (!data.empty()) {
      auto piece = data.first(std::min(data.size(), pieceBytes));
      Buffer view{contiguousType(DType::F32, {int64_t(piece.size() / 2)}),
                  widened.data()};
      loadElements(dtype, piece, view);
      if (firstNonFinite(view) >= 0)
        return true;
      data = data.subspan(piece.size());
    }
    return false;
  }
  DType same = dtype == FileDType::F64    ? DType::F64
               : dtype == FileDType::BF16 ? DType::BF16
                                          : DType::F32;
  int64_t count = int64_t(data.size()) / dtypeBytes(same);
  return firstNonFinite({contiguousType(same, {count}), data.data()}) >= 0;
}

/// Compares what the plan wants with what the checkpoint has; every value has
/// to be read for NaN and infinities.
static LoadProblems findProblems(const Checkpoint &checkpoint,
                                 std::span<const ParameterView> parameters,
                                 std::span<const std::string> carryPrefixes,
                                 bool withValues) {
  LoadProblems problems;
  std::set<std::string> wanted;
  for (const ParameterView &parameter : parameters) {
    wanted.insert(parameter.name);
    const StoredTensor *tensor = checkpoint.find(parameter.name);
    if (!tensor)
      problems.missing.push_back(parameter.name);
    else if (tensor->shape != parameter.shape)
      problems.wrongShape.push_back(fmt::format(
          "{}: plan [{}], file [{}]", parameter.name,
          fmt::join(parameter.shape, ", "), fmt::join(tensor->shape, ", ")));
    else if (!isWeightDType(tensor->dtype))
      problems.wrongType.push_back(
          fmt::format("{}: F64, F32, BF16 or F16 expected, file {}",
                      parameter.name, fileDTypeName(tensor->dtype)));
    else if (withValues &&
             hasNonFinite(tensor->dtype, storedSlice(*tensor, parameter)))
      problems.notFinite.push_back(parameter.name);
  }
  std::set<std::string> useless(carryPrefixes.begin(), carryPrefixes.end());
  for (const Checkpoint::Shard &shard : checkpoint.shards())
    for (const StoredTensor &tensor : shard.file.tensors()) {
      if (wanted.count(tensor.name))
        continue;
      if (!isCarriedTensor(tensor.name, carryPrefixes))
        problems.extra.push_back(tensor.name);
      std::erase_if(useless, [&](const std::string &prefix) {
        return tensor.name.starts_with(prefix);
      });
    }
  problems.uselessPrefixes.assign(useless.begin(), useless.end());
  return problems;
}

static void countCast(LoadReport &report, FileDType from, DType to,
                      const std::string &name) {
  if (from == fileDTypeOf(to))
    return;
  for (LoadReport::Cast &cast : report.casts)
    if (cast.from == from && cast.to == to) {
      ++cast.tensors;
      return;
    }
  report.casts.push_back({from, to, 1, name});
}

/// Fills a rank's slice of a parameter and its master from a tensor of its
/// shape.
static Status loadParameter(const Checkpoint &checkpoint,
                            const StoredTensor &tensor,
                            ParameterView &parameter) {
  Staging staging(*parameter.memory);
  auto size = static_cast<size_t>(fileDTypeBytes(tensor.dtype));
  std::span<const std::byte> slice = storedSlice(tensor, parameter);
  auto load = [&](int64_t first, const Buffer &piece) -> Status {
    loadElements(tensor.dtype,
                 slice.subspan(static_cast<size_t>(first) * size,
                               static_cast<size_t>(piece.elements()) * size),
                 piece);
    if (tensor.dtype == fileDTypeOf(piece.dtype) || firstNonFinite(piece) < 0)
      return okStatus();
    return dataLoss("checkpoint '{}': tensor '{}' of {} has values that {} "
                    "cannot hold",
                    checkpoint.directory(), parameter.name,
                    fileDTypeName(tensor.dtype), dtypeName(piece.dtype));
  };
  QWEN_RETURN_IF_ERROR(staging.write(parameter.value, load));
  return parameter.master.data ? staging.write(parameter.master, load)
                               : okStatus();
}

static Status reportProblems(const Checkpoint &checkpoint,
                             const LoadProblems &problems) {
  std::vector<std::string> lines = problems.lines();
  if (lines.empty())
    return okStatus();
  return dataLoss("checkpoint '{}' does not fit the plan, tensors: {}",
                  checkpoint.directory(), fmt::join(lines, "; "));
}

Status qwen::checkLayout(const Checkpoint &checkpoint,
                         std::span<const ParameterView> parameters,
                         std::span<const std::string> carryPrefixes) {
  return reportProblems(
      checkpoint, findProblems(checkpoint, parameters, carryPrefixes, false));
}

std::span<const std::byte> qwen::originalOf(const StoredTensor &tensor,
                                            const ParameterView &parameter) {
  // A float32 master is the exact copy unless the file is wider still.
  DType kept =
      parameter.master.data ? parameter.master.dtype : parameter.value.dtype;
  return holdsExactly(kept, tensor.dtype) ? std::span<const std::byte>()
                                          : storedSlice(tensor, parameter);
}

/// Fills all parameters from tensors that fit.
static StatusOr<LoadReport>
fillParameters(const Checkpoint &checkpoint,
               std::span<ParameterView> parameters) {
  LoadReport report;
  for (ParameterView &parameter : parameters) {
    const StoredTensor &tensor = *checkpoint.find(parameter.name);
    parameter.original = originalOf(tensor, parameter);
    QWEN_RETURN_IF_ERROR(loadParameter(checkpoint, tensor, parameter));
    countCast(report, tensor.dtype, parameter.value.dtype, parameter.name);
    ++report.loadedTensors;
  }
  std::set<std::string> wanted;
  for (const ParameterView &parameter : parameters)
    wanted.insert(parameter.name);
  for (const Checkpoint::Shard &shard : checkpoint.shards())
    for (const StoredTensor &tensor : shard.file.tensors())
      if (!wanted.count(tensor.name)) {
        ++report.carriedTensors;
        report.carriedBytes += static_cast<int64_t>(tensor.data.size());
      }
  return report;
}

StatusOr<LoadReport> qwen::loadParameters(
    const Checkpoint &checkpoint, std::span<ParameterView> parameters,
    std::span<const std::string> carryPrefixes, Communicator &ranks) {
  QWEN_RETURN_IF_ERROR(checkSlices(parameters, ranks));
  QWEN_RETURN_IF_ERROR(ranks.agree(reportProblems(
      checkpoint, findProblems(checkpoint, parameters, carryPrefixes, true))));
  auto report = fillParameters(checkpoint, parameters);
  QWEN_RETURN_IF_ERROR(ranks.agree(report.status()));
  return report;
}

Status qwen::checkFinite(std::span<const ParameterView> parameters) {
  auto check = [](const ParameterView &parameter, const Buffer &buffer,
                  const char *what) -> Status {
    if (!buffer.data)
      return okStatus();
    Staging staging(*parameter.memory);
    QWEN_ASSIGN_OR_RETURN(int64_t at, staging.firstNonFinite(buffer));
    if (at < 0)
      return okStatus();
    return makeError(StatusCode::FailedPrecondition,
                     "{} of '{}' is NaN or infinite at element {}", what,
                     parameter.name, parameter.firstElement + at);
  };
  for (const ParameterView &parameter : parameters) {
    QWEN_RETURN_IF_ERROR(check(parameter, parameter.value, "value"));
    QWEN_RETURN_IF_ERROR(check(parameter, parameter.master, "master"));
    QWEN_RETURN_IF_ERROR(check(parameter, parameter.moment1, "first moment"));
    QWEN_RETURN_IF_ERROR(check(parameter, parameter.moment2, "second moment"));
  }
  return okStatus();
}
