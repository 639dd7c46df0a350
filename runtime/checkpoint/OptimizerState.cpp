//===- OptimizerState.cpp - Moments, masters, exact weights ---------------===//

#include "runtime/checkpoint/Cast.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/Slices.h"
#include "runtime/checkpoint/Staging.h"

#include <cstring>
#include <fmt/ranges.h>
#include <map>

using namespace qwen;

/// Calls `visit(tensor name, shape, buffer)` for each tensor of the state of a
/// parameter. `exact`: the checkpoint's type cannot hold the value.
template <typename Visit>
static void visitState(const ParameterView &parameter, bool exact,
                       Visit visit) {
  if (parameter.moment1.data)
    visit("moment1." + parameter.name, parameter.moment1);
  if (parameter.moment2.data)
    visit("moment2." + parameter.name, parameter.moment2);
  if (parameter.master.data)
    visit("master." + parameter.name, parameter.master);
  if (exact)
    visit("value." + parameter.name, parameter.value);
}

/// Whether the type on disk cannot hold the value. A file type other than the
/// parameter's was written from the master.
static bool needsExactValue(FileDType onDisk, const ParameterView &parameter) {
  return !holdsExactly(onDisk, parameter.value.dtype) ||
         (parameter.master.data &&
          onDisk != fileDTypeOf(parameter.value.dtype));
}

Status qwen::planOptimizerState(const Checkpoint *types,
                                std::span<const ParameterView> parameters,
                                int64_t maxShardBytes, CheckpointFiles &files) {
  std::vector<TensorSource> tensors;
  for (const ParameterView &parameter : parameters) {
    const StoredTensor *stored = types ? types->find(parameter.name) : nullptr;
    bool exact =
        types && (!stored || needsExactValue(stored->dtype, parameter));
    visitState(
        parameter, exact, [&](const std::string &name, const Buffer &buffer) {
          tensors.push_back({{name, fileDTypeOf(buffer.dtype), parameter.shape},
                             {},
                             buffer,
                             parameter.memory,
                             parameter.firstElement});
        });
    if (stored && parameter.original.data())
      tensors.push_back(
          {{"original." + parameter.name, stored->dtype, parameter.shape},
           parameter.original,
           {},
           &hostMemory(),
           parameter.firstElement});
  }
  return files.addShards("optimizer", std::move(tensors),
                         {{"format", "qwen-optimizer-1"}}, maxShardBytes);
}

/// Points `original` of a parameter, which loading set to the saved tensor, at
/// the one that training started from. True where the state has one.
static bool restoreOriginal(const Checkpoint &state, ParameterView &parameter,
                            std::vector<std::string> &problems) {
  std::string name = "original." + parameter.name;
  const StoredTensor *tensor = state.find(name);
  if (!tensor) {
    if (parameter.original.data())
      problems.push_back(fmt::format("{} is missing", name));
    return false;
  }
  if (tensor->shape != parameter.shape) {
    problems.push_back(fmt::format("{} is {}, the plan has [{}]", name,
                                   toString(*tensor),
                                   fmt::join(parameter.shape, ", ")));
    return true;
  }
  std::span<const std::byte> slice = storedSlice(*tensor, parameter);
  if (slice.size() == parameter.original.size())
    parameter.original = slice;
  else
    problems.push_back(fmt::format("{} has {} bytes, {} expected", tensor->name,
                                   slice.size(), parameter.original.size()));
  return true;
}

namespace {
/// A tensor of the files and its place.
struct CopiedTensor {
  FileDType dtype;
  std::span<const std::byte> from;
  Buffer to;
  DeviceMemory *memory;
};

/// What the files of a state hold of the parameters, originals aside.
struct FoundState {
  std::vector<CopiedTensor> copies;
  std::vector<std::string> problems;
  size_t known = 0;
};
} // namespace

static void findState(const Checkpoint &state, const ParameterView &parameter,
                      FoundState &found) {
  bool exact = state.find("value." + parameter.name) != nullptr;
  visitState(
      parameter, exact, [&](const std::string &name, const Buffer &buffer) {
        const StoredTensor *tensor = state.find(name);
        TensorSpec expected{name, fileDTypeOf(buffer.dtype), parameter.shape};
        if (!tensor)
          found.problems.push_back(fmt::format("{} is missing", name));
        else if (toString(*tensor) != toString(expected))
          found.problems.push_back(fmt::format("{} is {}, the plan has {}",
                                               name, toString(*tensor),
                                               toString(expected)));
        else
          found.copies.push_back({tensor->dtype,
                                  storedSlice(*tensor, parameter), buffer,
                                  parameter.memory});
        ++found.known;
      });
}

static Status checkFound(const Checkpoint &state, FoundState &found) {
  size_t total = 0;
  for (const Checkpoint::Shard &shard : state.shards())
    total += shard.file.tensors().size();
  if (found.problems.empty() && found.known != total)
    found.problems.push_back(fmt::format(
        "{} tensors in the files, {} known to the plan", total, found.known));
  if (found.problems.empty())
    return okStatus();
  return dataLoss("optimizer state in '{}' does not fit the plan: {}",
                  state.directory(), listFirst(found.problems));
}

Status qwen::checkOptimizerState(const std::string &directory,
                                 std::span<const ParameterView> parameters) {
  QWEN_ASSIGN_OR_RETURN(Checkpoint state,
                        Checkpoint::open(directory, "optimizer"));
  FoundState found;
  for (const ParameterView &parameter : parameters) {
    found.known += state.find("original." + parameter.name) != nullptr;
    findState(state, parameter, found);
  }
  return checkFound(state, found);
}

/// loadOptimizerState on one rank.
static StatusOr<Checkpoint> loadState(const std::string &directory,
                                      std::span<ParameterView> parameters) {
  QWEN_ASSIGN_OR_RETURN(Checkpoint state,
                        Checkpoint::open(directory, "optimizer"));
  FoundState found;
  for (ParameterView &parameter : parameters) {
    found.known += restoreOriginal(state, parameter, found.problems);
    findState(state, parameter, found);
  }
  QWEN_RETURN_IF_ERROR(checkFound(state, found));
  for (const CopiedTensor &copy : found.copies) {
    Staging staging(*copy.memory);
    QWEN_RETURN_IF_ERROR(staging.load(copy.dtype, copy.from, copy.to));
  }
  return state;
}

StatusOr<Checkpoint>
qwen::loadOptimizerState(const std::string &directory,
                         std::span<ParameterView> parameters,
                         Communicator &ranks) {
  QWEN_RETURN_IF_ERROR(checkSlices(parameters, ranks));
  auto state = loadState(directory, parameters);
  QWEN_RETURN_IF_ERROR(ranks.agree(state.status()));
  return state;
}
