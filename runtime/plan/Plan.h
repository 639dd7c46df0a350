//===- Plan.h - A verified plan --------------------------------*- C++ -*-===//
//
// What qwenc wrote, read and checked once: the file's hash, the FlatBuffers
// structure, then the meaning of every number (PlanVerifier.h). Whoever holds a
// Plan may use it without further checks. Copies share the content.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_PLAN_PLAN_H
#define QWEN_RUNTIME_PLAN_PLAN_H

#include "qwen/Plan/Buffer.h"
#include "qwen/Plan/ParameterInit.h"
#include "qwen/Plan/Target.h"
#include "qwen/Support/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qwen {

namespace plan {
struct Plan;
} // namespace plan

/// What this runtime reads: the schema's version and its number of ranks.
inline constexpr uint32_t planSchemaVersion = 1;

/// Value of a view or buffer id that names nothing.
inline constexpr uint32_t noPlanId = 0xffffffffu;

/// Where a view lies: a buffer of the plan and a byte offset in it.
struct PlanPlace {
  uint32_t buffer = noPlanId;
  int64_t byteOffset = 0;
  /// The element type, shape and strides of the view.
  BufferType type;
  bool exists() const { return buffer != noPlanId; }
};

/// A trainable tensor; all its places are contiguous.
struct PlanParameter {
  std::string name; ///< of the Hugging Face checkpoint
  BufferType type;
  bool decay = true;
  ParameterInit init = ParameterInit::Normal;
  double initStd = 0;
  /// Parameters with one `stack` lie one after the other in one buffer.
  int64_t stack = 0;
  int64_t stackIndex = 0;
  /// Nowhere in a plan for several ranks.
  PlanPlace value, gradient, moment1, moment2, master;
  /// In a plan for several ranks: number of its bucket and the place of its
  /// first element there, in elements. -1: not sharded.
  int64_t bucket = -1;
  int64_t bucketOffset = 0;
};

/// A flat sequence of parameters that the ranks hold by equal parts.
struct PlanBucket {
  std::string name;
  DType dtype = DType::F32;  ///< of the values
  int64_t elements = 0;      ///< on all ranks
  int64_t shardElements = 0; ///< on each rank
  /// The rank's shard, [shardElements]; gradients and masters are f32 (f64).
  PlanPlace value, gradient, moment1, moment2, master;
};

/// The part of a sharded parameter that a rank holds; maybe empty.
struct PlanSlice {
  int64_t elements = 0;
  int64_t firstElement = 0; ///< of the part, in the parameter
  int64_t shardOffset = 0;  ///< of the part, in the rank's shard, in elements
};

/// What `rank` holds of a parameter of `bucket`.
PlanSlice sliceOf(const PlanParameter &parameter, const PlanBucket &bucket,
                  int64_t rank);

/// A named input or output of a program.
struct PlanPort {
  std::string name;
  PlanPlace place;
};

/// One entry point of the plan.
struct PlanProgram {
  std::string name;
  std::vector<PlanPort> inputs;
  std::vector<PlanPort> outputs;
  int64_t launches = 0;
};

/// One term of the model FLOPs of a trained token.
struct PlanFlopsTerm {
  std::string name;
  double perToken = 0; ///< FLOPs of a token, forward and backward
  /// FLOPs of a pair of a token and a token at or before it in its document.
  double perTokenContext = 0;
};

/// Exact bytes by class. Programs share `activations`.
struct PlanForecast {
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t optimizer = 0; ///< moments and master parameters
  int64_t activations = 0;
  int64_t workspace = 0;
  int64_t io = 0;
  int64_t code = 0;
  int64_t tables = 0; ///< addresses of tensor lists, in device memory
  int64_t total() const {
    return parameters + gradients + optimizer + activations + workspace + io +
           code + tables;
  }
};

/// A fact about the model, for reports ("hidden_size": "5120").
struct PlanFact {
  std::string name, text;
};

/// Everything of a plan but its launches and its memory map.
struct PlanInfo {
  uint32_t schemaVersion = 0;
  uint64_t kernelAbi = 0;
  uint64_t contentHash = 0;
  std::string compilerVersion, compilerFlags;
  std::string target; ///< one of qwen/Plan/Target.h
  TargetKind targetKind = TargetKind::Cpu;
  int64_t worldSize = 1;
  int64_t tokens = 0;       ///< of a micro-batch
  int64_t maxDocuments = 0; ///< of a micro-batch
  int64_t vocabSize = 0;
  std::vector<PlanFact> model;
  std::vector<PlanFlopsTerm> flops;
  PlanForecast forecast;
};

/// A verified plan.
class Plan {
public:
  /// Reads and verifies a file. DataLoss where it is cut or corrupt,
  /// FailedPrecondition where it is sound but not for this runtime.
  static StatusOr<Plan> load(const std::string &path);
  /// The same for bytes in memory, which are copied. `what` begins messages.
  static StatusOr<Plan> parse(std::span<const std::byte> bytes,
                              std::string_view what);

  const PlanInfo &info() const;
  std::span<const PlanParameter> parameters() const;
  /// Empty in a plan for one rank.
  std::span<const PlanBucket> buckets() const;
  std::span<const PlanProgram> programs() const;
  /// Index of a program, or nothing.
  std::optional<int> findProgram(std::string_view name) const;
  /// Index of a parameter by its Hugging Face name, or nothing.
  std::optional<int> findParameter(std::string_view name) const;
  /// Place of the input of that name; inputs of one name are one buffer in all
  /// programs. Null where there is none.
  const PlanPort *findInput(std::string_view name) const;

  /// The verified FlatBuffer, for the executor and for printing.
  const plan::Plan &raw() const;
  /// Size of the file.
  int64_t fileBytes() const;

private:
  struct Content;
  explicit Plan(std::shared_ptr<const Content> content);
  std::shared_ptr<const Content> content;
};

} // namespace qwen

#endif // QWEN_RUNTIME_PLAN_PLAN_H
