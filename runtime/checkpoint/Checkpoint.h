//===- Checkpoint.h - Hugging Face checkpoint folders ----------*- C++ -*-===//
//
// A checkpoint is a folder with `model.safetensors`, or several shards and
// `model.safetensors.index.json`, beside config and tokenizer files. Parameters
// are matched by their HF names; tensors that the plan does not train are
// carried from the loaded to the saved checkpoint byte for byte.
//
// Ranks that share a model read and write the same files, which do not tell how
// many they were. Each of them calls these functions with its own slices and
// touches the bytes of those alone; an error of one is an error of all.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_CHECKPOINT_CHECKPOINT_H
#define QWEN_RUNTIME_CHECKPOINT_CHECKPOINT_H

#include "qwen/Plan/Buffer.h"
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/checkpoint/ShardWriter.h"
#include "runtime/collectives/Communicator.h"
#include "runtime/support/DeviceMemory.h"

#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace qwen {

/// The tensors of a checkpoint folder, mapped and verified against the index.
class Checkpoint {
public:
  struct Shard {
    std::string fileName;
    SafetensorsFile file;
  };

  /// Opens `<directory>/<stem>.safetensors` or the shards that
  /// `<stem>.safetensors.index.json` lists. All contradictions between index
  /// and shards are reported at once.
  static StatusOr<Checkpoint> open(const std::string &directory,
                                   const std::string &stem = "model");

  const std::string &directory() const { return folder; }
  const std::vector<Shard> &shards() const { return parts; }
  /// The tensor of that name, or null.
  const StoredTensor *find(const std::string &name) const;
  /// Text of the index; empty where one file holds everything.
  const std::string &indexText() const { return index; }

private:
  Checkpoint() = default;
  Status openShards(const std::string &indexPath);

  std::string folder, index;
  std::vector<Shard> parts;
};

/// A parameter as the executor holds it. All buffers are contiguous and lie in
/// `memory`. Of a parameter that ranks share they are of rank 1 and hold this
/// rank's slice, which may be empty.
struct ParameterView {
  std::string name;
  std::vector<int64_t> shape; ///< as in the checkpoint, of the whole
  int64_t firstElement = 0;   ///< of the slice, in the whole
  DeviceMemory *memory = &hostMemory();
  Buffer value;
  Buffer master;           ///< float32; null data where there is none
  Buffer moment1, moment2; ///< null data where there are none
  /// The tensor that training started from, in the checkpoint's type, where
  /// that type can hold what the plan's cannot. An element that training did
  /// not move is saved as its original, so it keeps every bit. Of a slice: its
  /// part. Null data where there is none.
  std::span<const std::byte> original;
};

/// What happened to the tensors of a checkpoint.
struct LoadReport {
  struct Cast {
    FileDType from;
    DType to;
    int64_t tensors;
    std::string example;
  };
  std::vector<Cast> casts; ///< only those that change the type
  int64_t loadedTensors = 0;
  int64_t carriedTensors = 0;
  int64_t carriedBytes = 0;
};

/// Names of tensors that a text model does not train and that are carried:
/// the vision tower and the multi-token prediction head.
bool isCarriedTensor(const std::string &name,
                     std::span<const std::string> extraPrefixes);

/// Fills every parameter (and its master) from the checkpoint. Tensors that
/// are missing, of a wrong shape or type, not finite, or neither wanted nor
/// carried are reported at once, before anything is written; so are prefixes
/// that no tensor has. A value that the plan's type cannot hold is an error
/// too. `original` points into the checkpoint afterwards where it is needed.
StatusOr<LoadReport> loadParameters(const Checkpoint &checkpoint,
                                    std::span<ParameterView> parameters,
                                    std::span<const std::string> carryPrefixes,
                                    Communicator &ranks = selfCommunicator());

/// The same question without looking at values or writing anything: does the
/// checkpoint hold what the parameters and `carryPrefixes` name?
Status checkLayout(const Checkpoint &checkpoint,
                   std::span<const ParameterView> parameters,
                   std::span<const std::string> carryPrefixes);

/// Largest shard of a checkpoint that has no predecessor to imitate.
inline constexpr int64_t defaultShardBytes = 5'000'000'000;

/// The part of a loaded tensor that a parameter keeps as its original; empty
/// where the plan's type, or a master, holds every value. `tensor` has the
/// parameter's shape.
std::span<const std::byte> originalOf(const StoredTensor &tensor,
                                      const ParameterView &parameter);

/// Plans the files of the weights: with the shards, names, types, order and
/// metadata of `source`, or (source null) in shards of its own with the types
/// of the plan. The parameters must stay until the files are filled.
Status planWeights(const Checkpoint *source,
                   std::span<const ParameterView> parameters,
                   int64_t maxShardBytes, CheckpointFiles &files);

/// Plans `optimizer*.safetensors`: masters and moments, the exact value of
/// those parameters that the types of `types` (null: those of the plan) cannot
/// hold, and the originals. `types` is a saved checkpoint or what it is saved
/// in the likeness of.
Status planOptimizerState(const Checkpoint *types,
                          std::span<const ParameterView> parameters,
                          int64_t maxShardBytes, CheckpointFiles &files);

/// Both: every file of tensors that a checkpoint in the likeness of `source`
/// (null: with the plan's types) has.
Status planCheckpoint(const Checkpoint *source,
                      std::span<const ParameterView> parameters,
                      int64_t maxShardBytes, CheckpointFiles &files);

/// Bytes of these files for parameters that are yet to be loaded from `source`,
/// which has their layout (checkLayout), or set at random where it is null.
StatusOr<int64_t> checkpointBytes(const Checkpoint *source,
                                  std::span<const ParameterView> parameters);

/// Writes the files of planWeights into `directory`, on all ranks together.
Status saveParameters(const std::string &directory, const Checkpoint *source,
                      std::span<const ParameterView> parameters,
                      int64_t maxShardBytes = defaultShardBytes,
                      Communicator &ranks = selfCommunicator());

/// Config, tokenizer, template and licence files of a checkpoint folder, that
/// is every small file that is neither weights nor training state. They stay
/// readable when the folder they came from is removed.
class SideFiles {
public:
  /// Maps the files of a folder.
  Status addFolder(const std::string &directory);
  /// Adds one file under a name of its own; it replaces one of that name.
  Status addFile(const std::string &path, const std::string &name);
  bool has(const std::string &name) const { return files.count(name); }
  void remove(const std::string &name) { files.erase(name); }
  /// Takes over the files of `other`; they replace those of the same name.
  void merge(SideFiles other);
  int64_t bytes() const;
  Status writeTo(const std::string &directory) const;

private:
  using Content = std::variant<MappedFile, std::string>;
  std::map<std::string, Content> files;
};

/// Writes the files of planOptimizerState into `directory`, on all ranks
/// together.
Status saveOptimizerState(const std::string &directory,
                          const Checkpoint &checkpointTypes,
                          std::span<const ParameterView> parameters,
                          int64_t maxShardBytes = defaultShardBytes,
                          Communicator &ranks = selfCommunicator());

/// Restores what `saveOptimizerState` wrote, bit for bit. To be called after
/// `loadParameters`. The result holds the originals of the parameters and must
/// live as long as they are used.
StatusOr<Checkpoint>
loadOptimizerState(const std::string &directory,
                   std::span<ParameterView> parameters,
                   Communicator &ranks = selfCommunicator());

/// Whether the files hold what `loadOptimizerState` would read, of the right
/// types and shapes; originals aside, whose types those of the weights say.
Status checkOptimizerState(const std::string &directory,
                           std::span<const ParameterView> parameters);

/// FailedPrecondition that names the first parameter or moment with a NaN or an
/// infinity, in this rank's slices.
Status checkFinite(std::span<const ParameterView> parameters);

/// "a, b, c and 4 more".
std::string listFirst(std::span<const std::string> names, size_t most = 3);

} // namespace qwen

#endif // QWEN_RUNTIME_CHECKPOINT_CHECKPOINT_H
