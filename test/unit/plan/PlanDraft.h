//===- PlanDraft.h - A small plan that tests may spoil ---------*- C++ -*-===//
//
// Plain data for every table of the schema. `matrixPlan` is a valid plan; a
// test changes one number and asks what the verifier says.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_TEST_UNIT_PLAN_PLANDRAFT_H
#define QWEN_TEST_UNIT_PLAN_PLANDRAFT_H

#include "qwen/Plan/plan_generated.h"
#include "runtime/plan/Plan.h"

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace qwen::test {

using Builder = flatbuffers::FlatBufferBuilder;

/// Kernel number and table of a step.
using StepDraft =
    std::function<std::pair<plan::Kernel, flatbuffers::Offset<void>>(
        Builder &)>;

struct PortDraft {
  std::string name;
  uint32_t view;
};

struct ProgramDraft {
  std::string name;
  std::vector<PortDraft> inputs, outputs;
  std::vector<StepDraft> steps;
  /// By step; where there is no entry: stream 0, no waits.
  std::map<size_t, uint8_t> streams = {};
  std::map<size_t, std::vector<uint32_t>> waits = {};
  uint32_t label = noPlanId;
};

struct BufferDraft {
  uint64_t offset, size;
  uint32_t arena;
  int32_t program = -1;
  uint32_t first = 0, last = 0;
};

struct ParameterDraft {
  std::string name;
  uint32_t value, gradient = noPlanId, moment1 = noPlanId, moment2 = noPlanId,
                  master = noPlanId;
  plan::Init init = plan::Init::Normal;
  double std = 0.02;
  uint32_t stack = 0, stackIndex = 0;
  uint32_t bucket = noPlanId;
  uint64_t bucketOffset = 0;
  uint32_t type = noPlanId;
};

struct BucketDraft {
  std::string name;
  plan::ElementType dtype;
  uint64_t elements;
  uint32_t value, gradient = noPlanId, moment1 = noPlanId, moment2 = noPlanId,
                  master = noPlanId;
};

/// A generated kernel of one input and one output.
struct CodeSymbolDraft {
  std::string name;
  std::vector<plan::CodeOperand> operands;
  uint64_t rows = 4;
  std::vector<uint32_t> columnSums = {};
  uint32_t threads = 0, blocks = 0, sharedBytes = 0;
};

struct PlanDraft {
  uint32_t schemaVersion = planSchemaVersion;
  uint64_t kernelAbi;
  std::string target = "x86-64";
  uint32_t worldSize = 1;
  uint64_t tokens = 4, maxDocuments = 2, vocabSize = 16;
  std::vector<plan::Arena> arenas;
  std::vector<BufferDraft> buffers;
  std::vector<plan::TensorType> types;
  std::vector<plan::View> views;
  std::vector<ParameterDraft> parameters;
  std::vector<BucketDraft> buckets;
  std::vector<ProgramDraft> programs;
  std::string codeTarget = "x86-64";
  std::string code;
  std::vector<CodeSymbolDraft> codeSymbols;
  uint32_t workspace = noPlanId;
  /// Added to the forecast of activations.
  uint64_t forecastError = 0;

  PlanDraft();
  /// The file's bytes with a right hash.
  std::string build() const;
};

plan::TensorType tensor(plan::ElementType dtype, std::vector<int64_t> shape,
                        std::vector<int64_t> strides = {});
StepDraft gemm(uint32_t a, uint32_t b, uint32_t c, bool accumulate = false);
StepDraft copy(uint32_t in, uint32_t out);
StepDraft fill(uint32_t out, double value);
StepDraft allGather(uint32_t shard, uint32_t full);
/// Accumulates.
StepDraft reduceScatter(uint32_t full, uint32_t shard);
StepDraft embeddingShard(uint32_t shard, uint32_t ids, uint32_t out,
                         int64_t begin, int64_t rows);
/// Accumulates.
StepDraft embeddingGradShard(uint32_t dout, uint32_t ids, uint32_t shard,
                             int64_t begin, int64_t rows);
StepDraft gradNormLocal(uint32_t grad, uint32_t partial);
StepDraft gradNormCombine(uint32_t partials, uint32_t hyper, uint32_t stats);
/// Of shardedPlan's tensors, once for each bucket.
StepDraft shardedAdamW(std::vector<int64_t> buckets);
/// A group of one input and one output, `rows` rows, one a block.
StepDraft group(uint32_t in, uint32_t out, std::string symbol, int64_t rows);

/// Numbers of the views of matrixPlan.
enum MatrixView : uint32_t {
  ViewX,        // input f32[4, 8]
  ViewW,        // parameter "w" f32[6, 8]
  ViewH,        // activation f32[4, 6]
  ViewY,        // output f32[4, 6]
  ViewGradient, // gradient of "w" f32[6, 8]
  ViewV,        // parameter "v" f32[2, 8], stacked after "w"
  ViewT,        // activation f32[4, 6], shares memory with nothing
};

/// Program "forward": h = x w^T, t = h, y = t. Program "clear": the gradient of
/// w becomes zero.
PlanDraft matrixPlan();

/// Numbers of the views of shardedPlan.
enum ShardedView : uint32_t {
  ShardedX,        // input f32[4, 8]
  ShardedHyper,    // input f32[8]
  ShardedRng,      // input i32[2]
  ShardedY,        // output f32[4, 6]
  ShardedStats,    // output f32[4]
  ShardedValue,    // shard f32[64]
  ShardedGradient, // shard f32[64]
  ShardedMoment1,  // shard f32[64]
  ShardedMoment2,  // shard f32[64]
  ShardedFull,     // activation f32[128], the gathered bucket
  ShardedW,        // the parameter in it, f32[6, 8]
  ShardedGrads,    // activation f32[128]
  ShardedPartial,  // activation f64[1]
  ShardedPartials, // activation f64[2]
};

/// For 2 ranks: "w" f32[6, 8] and "v" f32[2, 8], stacked in one bucket of 128
/// elements. Program "micro_step": y = x w^T, all gradients become larger by
/// 1; "update": AdamW.
PlanDraft shardedPlan();

/// Result of parsing a file's bytes.
StatusOr<Plan> parse(const std::string &bytes);

/// The same bytes with a hash that fits them.
std::string withRightHash(std::string bytes);

} // namespace qwen::test

#endif // QWEN_TEST_UNIT_PLAN_PLANDRAFT_H
