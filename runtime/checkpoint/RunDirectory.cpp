//===- RunDirectory.cpp - The output folder of a training run -------------===//

#include "runtime/checkpoint/RunDirectory.h"

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/support/Json.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <unistd.h>
#include <utility>

using namespace qwen;
namespace fs = std::filesystem;

static constexpr std::string_view checkpointPrefix = "checkpoint-";

/// Step of a folder name, or -1.
static int64_t parseStep(std::string_view name) {
  if (!name.starts_with(checkpointPrefix))
    return -1;
  name.remove_prefix(checkpointPrefix.size());
  int64_t step = -1;
  auto [end, error] =
      std::from_chars(name.data(), name.data() + name.size(), step);
  bool whole = error == std::errc() && end == name.data() + name.size();
  return whole ? step : -1;
}

/// Names of a folder's entries, sorted; none where it cannot be read.
static std::vector<std::string> entriesOf(const std::string &directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error))
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<PublishedCheckpoint>
qwen::listCheckpoints(const std::string &directory) {
  std::vector<PublishedCheckpoint> found;
  for (const std::string &name : entriesOf(directory))
    if (int64_t step = parseStep(name); step >= 0)
      found.push_back({step, directory + "/" + name});
  std::sort(found.begin(), found.end(),
            [](auto &a, auto &b) { return a.step > b.step; });
  return found;
}

Status qwen::verifyCheckpoint(const std::string &path) {
  QWEN_ASSIGN_OR_RETURN(std::string text,
                        readTextFile(path + "/trainer_state.json"));
  QWEN_ASSIGN_OR_RETURN(Json state,
                        parseJsonObject(text, path + "/trainer_state.json"));
  QWEN_ASSIGN_OR_RETURN(Checkpoint weights, Checkpoint::open(path));
  QWEN_ASSIGN_OR_RETURN(Checkpoint optimizer,
                        Checkpoint::open(path, "optimizer"));
  return okStatus();
}

StatusOr<PublishedCheckpoint>
qwen::findNewestCheckpoint(const std::string &directory,
                           std::vector<std::string> &warnings) {
  for (PublishedCheckpoint &checkpoint : listCheckpoints(directory)) {
    Status status = verifyCheckpoint(checkpoint.path);
    if (status.ok())
      return checkpoint;
    warnings.push_back(fmt::format("passing over '{}': {}", checkpoint.path,
                                   status.message()));
  }
  return makeError(StatusCode::NotFound, "no usable checkpoint in '{}'{}{}",
                   directory, warnings.empty() ? "" : "; ",
                   warnings.empty() ? "" : warnings.front());
}

StatusOr<RunDirectory> RunDirectory::open(const std::string &path) {
  QWEN_RETURN_IF_ERROR(ensureWritableDirectory(path));
  RunDirectory run;
  run.folder = path;
  std::string lockPath = path + "/.lock";
  run.lock = ::open(lockPath.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (run.lock < 0)
    return systemStatus("create", lockPath, errno);
  if (::flock(run.lock, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK)
      return makeError(StatusCode::FailedPrecondition,
                       "'{}' is in use by another run", path);
    return systemStatus("lock", lockPath, errno);
  }
  for (const std::string &name : entriesOf(path)) {
    // A replaced folder whose successor was never published is the last good
    // one and gets its name back.
    if (name.starts_with(".old-checkpoint-")) {
      std::string original = name.substr(5, name.rfind('-') - 5);
      std::error_code error;
      if (parseStep(original) >= 0 && !fs::exists(path + "/" + original, error))
        fs::rename(path + "/" + name, path + "/" + original, error);
    }
    if (name.starts_with(".tmp-") || name.starts_with(".old-") ||
        name.starts_with(".gone-"))
      QWEN_RETURN_IF_ERROR(removeDirectory(path + "/" + name));
  }
  return run;
}

RunDirectory::RunDirectory(RunDirectory &&other) noexcept
    : folder(std::move(other.folder)), lock(std::exchange(other.lock, -1)) {}

RunDirectory::~RunDirectory() {
  if (lock >= 0)
    ::close(lock);
}

static std::string nameOf(int64_t step) {
  return fmt::format("{}{}", checkpointPrefix, step);
}

std::string RunDirectory::checkpointPath(int64_t step) const {
  return folder + "/" + nameOf(step);
}

StatusOr<PendingDirectory> RunDirectory::beginCheckpoint(int64_t step) const {
  return PendingDirectory::create(folder, nameOf(step));
}

Status RunDirectory::keepNewest(int64_t keep, int64_t step) const {
  std::vector<PublishedCheckpoint> all = listCheckpoints(folder);
  std::erase_if(all, [&](auto &checkpoint) { return checkpoint.step > step; });
  for (size_t i = std::max<int64_t>(keep, 1); i < all.size(); ++i) {
    // Renamed first: a half-removed folder must not look like a checkpoint.
    std::string gone = fmt::format("{}/.gone-{}", folder, all[i].step);
    if (std::rename(all[i].path.c_str(), gone.c_str()) != 0)
      return systemStatus("remove", all[i].path, errno);
    QWEN_RETURN_IF_ERROR(removeDirectory(gone));
  }
  return okStatus();
}
