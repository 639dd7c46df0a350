//===- CheckpointWriter.h - Checkpoints beside training --------*- C++ -*-===//
//
// Writes the checkpoints of a run together with the other ranks:
//
//   writer.begin(content);              // folder and files, in their sizes
//   … training goes on …                // a thread of each rank fills them
//   if (*writer.isWritten())            // between two steps, on all ranks
//     path = writer.finish();           // published by one rename
//
// The threads write files and nothing else: what ranks say to each other they
// say in the calls above, from the thread that trains. A checkpoint that one
// rank cannot write is one for none of them; its folder is removed.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_CHECKPOINT_CHECKPOINTWRITER_H
#define QWEN_RUNTIME_CHECKPOINT_CHECKPOINTWRITER_H

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/RunDirectory.h"

#include <functional>
#include <memory>

namespace qwen {

/// What goes into a checkpoint. What it points at must stay, unchanged, until
/// the checkpoint is finished.
struct CheckpointContent {
  int64_t step = 0;
  /// Whose layout is kept; null: none.
  const Checkpoint *source = nullptr;
  /// Refused where one of them is NaN or infinite.
  std::span<const ParameterView> parameters;
  /// Writes what the first rank adds, in the thread that writes.
  std::function<Status(const std::string &folder)> addFiles;
  int64_t maxShardBytes = defaultShardBytes;
};

/// Every rank has one and makes the same calls.
class CheckpointWriter {
public:
  /// The first rank has the `directory`, the others null.
  CheckpointWriter(const RunDirectory *directory, Communicator &ranks);
  /// Gives up what is being written.
  ~CheckpointWriter();

  /// Writes and publishes; returns the folder.
  StatusOr<std::string> save(CheckpointContent content);

  /// Starts to write. Nothing may be under way.
  Status begin(CheckpointContent content);
  /// Whether a checkpoint was begun and not finished.
  bool isBusy() const { return pending != nullptr; }
  /// Step of the checkpoint that was begun.
  int64_t step() const;
  /// Whether all ranks have written, with success or without.
  StatusOr<bool> isWritten();
  /// Waits until all ranks have written and publishes; returns the folder.
  StatusOr<std::string> finish();

private:
  struct Pending;

  Status prepare(CheckpointContent content);
  Status makeFiles();
  Status publish();
  Status drop(const Status &reason);

  const RunDirectory *directory;
  Communicator &ranks;
  std::unique_ptr<Pending> pending;
};

} // namespace qwen

#endif // QWEN_RUNTIME_CHECKPOINT_CHECKPOINTWRITER_H
