//===- CheckpointWriter.cpp - Checkpoints beside training -----------------===//

#include "runtime/checkpoint/CheckpointWriter.h"

#include "runtime/checkpoint/ShardWriter.h"
#include "runtime/checkpoint/Slices.h"

#include <atomic>
#include <cassert>
#include <omp.h>
#include <optional>
#include <thread>

using namespace qwen;

struct CheckpointWriter::Pending {
  CheckpointContent content;
  CheckpointFiles files;
  std::string path;                       ///< of the folder under construction
  std::optional<PendingDirectory> folder; ///< of the first rank
  Status result;
  std::atomic<bool> written{false};
  std::jthread thread; ///< joined before the rest goes

  Status write(int rank, int size, const std::stop_token &stop) const;
};

/// Writes this rank's part.
Status CheckpointWriter::Pending::write(int rank, int size,
                                        const std::stop_token &stop) const {
  for (const ParameterView &parameter : content.parameters) {
    if (stop.stop_requested())
      break; // fillFiles says so
    QWEN_RETURN_IF_ERROR(checkFinite({&parameter, 1}));
  }
  QWEN_RETURN_IF_ERROR(fillFiles(path, files, rank, size, stop));
  return rank == 0 && content.addFiles ? content.addFiles(path) : okStatus();
}

CheckpointWriter::CheckpointWriter(const RunDirectory *directory,
                                   Communicator &ranks)
    : directory(directory), ranks(ranks) {}

CheckpointWriter::~CheckpointWriter() = default;

int64_t CheckpointWriter::step() const { return pending->content.step; }

/// Plans the files; the first rank makes them, which takes their room.
Status CheckpointWriter::makeFiles() {
  const CheckpointContent &content = pending->content;
  QWEN_RETURN_IF_ERROR(planCheckpoint(content.source, content.parameters,
                                      content.maxShardBytes, pending->files));
  if (ranks.rank() != 0)
    return okStatus();
  if (!directory)
    return makeError(StatusCode::Internal, "no folder for checkpoints");
  QWEN_ASSIGN_OR_RETURN(PendingDirectory made,
                        directory->beginCheckpoint(content.step));
  pending->path = made.path();
  pending->folder.emplace(std::move(made));
  return reserveFiles(pending->path, pending->files);
}

Status CheckpointWriter::prepare(CheckpointContent content) {
  assert(!pending && "finish the one before first");
  QWEN_RETURN_IF_ERROR(checkSlices(content.parameters, ranks));
  pending = std::make_unique<Pending>();
  pending->content = std::move(content);
  Status made = ranks.agree(makeFiles());
  if (!made.ok())
    return drop(made);
  QWEN_ASSIGN_OR_RETURN(pending->path, ranks.firstText(pending->path));
  return okStatus();
}

Status CheckpointWriter::begin(CheckpointContent content) {
  QWEN_RETURN_IF_ERROR(prepare(std::move(content)));
  pending->thread = std::jthread([work = pending.get(), rank = ranks.rank(),
                                  size = ranks.size()](std::stop_token stop) {
    // The processors are those of training.
    omp_set_num_threads(1);
    work->result = work->write(rank, size, stop);
    work->written = true;
  });
  return okStatus();
}

StatusOr<bool> CheckpointWriter::isWritten() {
  QWEN_ASSIGN_OR_RETURN(bool someWrite, ranks.any(!pending->written));
  return !someWrite;
}

/// On the first rank: gives the folder its name, if it can be read.
Status CheckpointWriter::publish() {
  if (!pending->folder)
    return okStatus();
  QWEN_RETURN_IF_ERROR(verifyCheckpoint(pending->path));
  return pending->folder->publish();
}

/// Removes the folder before any rank goes on, or ends the run for all.
Status CheckpointWriter::drop(const Status &reason) {
  pending.reset();
  QWEN_RETURN_IF_ERROR(ranks.barrier());
  return reason;
}

StatusOr<std::string> CheckpointWriter::finish() {
  if (pending->thread.joinable())
    pending->thread.join();
  Status saved = ranks.agree(pending->result);
  if (saved.ok())
    saved = ranks.agree(publish());
  if (!saved.ok())
    return drop(saved);
  std::string target;
  if (directory)
    target = directory->checkpointPath(step());
  pending.reset();
  return ranks.firstText(target);
}

StatusOr<std::string> CheckpointWriter::save(CheckpointContent content) {
  QWEN_RETURN_IF_ERROR(prepare(std::move(content)));
  pending->result = pending->write(ranks.rank(), ranks.size(), {});
  return finish();
}
