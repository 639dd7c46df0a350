//===- PlanDraft.cpp - A small plan that tests may spoil ------------------===//
//
// Writes the tables as they stand, sense or no sense.
//
//===----------------------------------------------------------------------===//

#include "PlanDraft.h"
#include "qwen/Plan/KernelAbi.h"
#include "qwen/Plan/KernelChecks.h"
#include "qwen/Plan/Workspace.h"
#include "runtime/plan/PlanFile.h"

#include <algorithm>

using namespace qwen;
using namespace qwen::test;

PlanDraft::PlanDraft() : kernelAbi(kernelAbiVersion) {}

namespace {

std::vector<flatbuffers::Offset<plan::Port>>
buildPorts(Builder &builder, const std::vector<PortDraft> &ports) {
  std::vector<flatbuffers::Offset<plan::Port>> result;
  for (const PortDraft &port : ports)
    result.push_back(
        plan::CreatePort(builder, builder.CreateString(port.name), port.view));
  return result;
}

flatbuffers::Offset<plan::Program> buildProgram(Builder &builder,
                                                const ProgramDraft &draft) {
  std::vector<flatbuffers::Offset<plan::Step>> steps;
  for (size_t i = 0; i < draft.steps.size(); ++i) {
    auto [kernel, table] = draft.steps[i](builder);
    auto stream = draft.streams.find(i);
    auto waits = draft.waits.find(i);
    flatbuffers::Offset<flatbuffers::Vector<uint32_t>> waitTable;
    if (waits != draft.waits.end())
      waitTable = builder.CreateVector(waits->second);
    steps.push_back(plan::CreateStep(
        builder, kernel, table,
        stream == draft.streams.end() ? uint8_t(0) : stream->second,
        draft.label, waitTable));
  }
  auto inputs = builder.CreateVector(buildPorts(builder, draft.inputs));
  auto outputs = builder.CreateVector(buildPorts(builder, draft.outputs));
  auto name = builder.CreateString(draft.name);
  return plan::CreateProgram(builder, name, inputs, outputs,
                             builder.CreateVector(steps));
}

flatbuffers::Offset<plan::Forecast> buildForecast(Builder &builder,
                                                  const PlanDraft &draft) {
  uint64_t sums[9] = {};
  for (const plan::Arena &arena : draft.arenas)
    sums[static_cast<int>(arena.holds()) % 9] += arena.size();
  return plan::CreateForecast(builder, sums[0], sums[1],
                              sums[2] + sums[3] + sums[4],
                              sums[7] + draft.forecastError, sums[8],
                              sums[5] + sums[6], draft.code.size());
}

} // namespace

std::string PlanDraft::build() const {
  Builder builder;
  std::vector<flatbuffers::Offset<plan::Program>> programTables;
  for (const ProgramDraft &program : programs)
    programTables.push_back(buildProgram(builder, program));
  std::vector<flatbuffers::Offset<plan::Parameter>> parameterTables;
  for (const ParameterDraft &p : parameters)
    parameterTables.push_back(plan::CreateParameter(
        builder, builder.CreateString(p.name), p.value, p.gradient, p.moment1,
        p.moment2, p.master, p.init, p.std, true, p.stack, p.stackIndex,
        p.bucket, p.bucketOffset, p.type));
  std::vector<flatbuffers::Offset<plan::Bucket>> bucketTables;
  for (const BucketDraft &b : buckets)
    bucketTables.push_back(plan::CreateBucket(
        builder, builder.CreateString(b.name), b.dtype, b.elements, b.value,
        b.gradient, b.moment1, b.moment2, b.master));
  flatbuffers::Offset<plan::Code> codeTable;
  if (!code.empty()) {
    std::vector<flatbuffers::Offset<plan::CodeSymbol>> symbols;
    for (const CodeSymbolDraft &s : codeSymbols)
      symbols.push_back(
          plan::CreateCodeSymbol(builder, builder.CreateString(s.name),
                                 builder.CreateVectorOfStructs(s.operands),
                                 builder.CreateVector(s.columnSums), s.rows,
                                 s.threads, s.blocks, s.sharedBytes));
    codeTable = plan::CreateCode(
        builder, builder.CreateString(codeTarget),
        builder.CreateVector(reinterpret_cast<const uint8_t *>(code.data()),
                             code.size()),
        builder.CreateVector(symbols));
  }
  auto version = builder.CreateString("1.2.3");
  auto flags = builder.CreateString("--recompute=none");
  auto targetText = builder.CreateString(target);
  auto forecast = buildForecast(builder, *this);
  auto fact = plan::CreateFact(builder, builder.CreateString("name"),
                               builder.CreateString("tiny"));
  auto term =
      plan::CreateFlopsTerm(builder, builder.CreateString("linear"), 96, 2);
  auto facts = builder.CreateVector(&fact, 1);
  auto terms = builder.CreateVector(&term, 1);
  auto arenaTable = builder.CreateVectorOfStructs(arenas);
  std::vector<plan::Buffer> bufferStructs;
  for (const BufferDraft &b : buffers)
    bufferStructs.emplace_back(b.offset, b.size, b.arena, b.program, b.first,
                               b.last);
  auto bufferTable = builder.CreateVectorOfStructs(bufferStructs);
  auto typeTable = builder.CreateVectorOfStructs(types);
  auto viewTable = builder.CreateVectorOfStructs(views);
  auto parameterTable = builder.CreateVector(parameterTables);
  auto programTable = builder.CreateVector(programTables);
  auto bucketTable = builder.CreateVector(bucketTables);
  auto labels =
      builder.CreateVectorOfStrings(std::vector<std::string>{"layer 0"});
  plan::FinishPlanBuffer(
      builder,
      plan::CreatePlan(builder, schemaVersion, kernelAbi, version, flags,
                       targetText, worldSize, tokens, maxDocuments, vocabSize,
                       facts, terms, forecast, arenaTable, bufferTable,
                       typeTable, viewTable, parameterTable, programTable,
                       labels, codeTable, workspace, bucketTable));
  std::string bytes(reinterpret_cast<const char *>(builder.GetBufferPointer()),
                    builder.GetSize());
  return bytes + planTrailer(std::as_bytes(std::span(bytes)));
}

plan::TensorType test::tensor(plan::ElementType dtype,
                              std::vector<int64_t> shape,
                              std::vector<int64_t> strides) {
  uint8_t rank = static_cast<uint8_t>(shape.size());
  if (strides.empty()) {
    strides.assign(rank, 1);
    for (int i = rank - 2; i >= 0; --i)
      strides[i] = strides[i + 1] * shape[i + 1];
  }
  shape.resize(4);
  strides.resize(4);
  return plan::TensorType(
      flatbuffers::span<const int64_t, 4>(shape.data(), 4),
      flatbuffers::span<const int64_t, 4>(strides.data(), 4), dtype, rank);
}

StepDraft test::gemm(uint32_t a, uint32_t b, uint32_t c, bool accumulate) {
  return [=](Builder &builder) {
    return std::pair(
        plan::Kernel::Gemm,
        plan::CreateGemm(builder, a, b, 0, c, false, true, accumulate).Union());
  };
}

StepDraft test::copy(uint32_t in, uint32_t out) {
  return [=](Builder &builder) {
    return std::pair(plan::Kernel::Copy,
                     plan::CreateCopy(builder, in, out).Union());
  };
}

StepDraft test::fill(uint32_t out, double value) {
  return [=](Builder &builder) {
    return std::pair(plan::Kernel::Fill,
                     plan::CreateFill(builder, out, value).Union());
  };
}

StepDraft test::group(uint32_t in, uint32_t out, std::string symbol,
                      int64_t rows) {
  return [=](Builder &builder) {
    auto inputs = builder.CreateVector(&in, 1);
    auto outputs = builder.CreateVector(&out, 1);
    auto name = builder.CreateString(symbol);
    return std::pair(
        plan::Kernel::Group,
        plan::CreateGroup(builder, inputs, outputs, name, rows, 1, 0, 0, 6)
            .Union());
  };
}

StepDraft test::allGather(uint32_t shard, uint32_t full) {
  return [=](Builder &builder) {
    return std::pair(plan::Kernel::AllGather,
                     plan::CreateAllGather(builder, shard, full).Union());
  };
}

StepDraft test::reduceScatter(uint32_t full, uint32_t shard) {
  return [=](Builder &builder) {
    return std::pair(
        plan::Kernel::ReduceScatter,
        plan::CreateReduceScatter(builder, full, shard, true).Union());
  };
}

StepDraft test::embeddingShard(uint32_t shard, uint32_t ids, uint32_t out,
                               int64_t begin, int64_t rows) {
  return [=](Builder &builder) {
    return std::pair(
        plan::Kernel::EmbeddingShard,
        plan::CreateEmbeddingShard(builder, shard, ids, out, begin, rows)
            .Union());
  };
}

StepDraft test::embeddingGradShard(uint32_t dout, uint32_t ids, uint32_t shard,
                                   int64_t begin, int64_t rows) {
  return [=](Builder &builder) {
    return std::pair(plan::Kernel::EmbeddingGradShard,
                     plan::CreateEmbeddingGradShard(builder, dout, ids, shard,
                                                    begin, rows, true)
                         .Union());
  };
}

StepDraft test::gradNormLocal(uint32_t grad, uint32_t partial) {
  return [=](Builder &builder) {
    auto grads = builder.CreateVector(&grad, 1);
    return std::pair(
        plan::Kernel::GradNormLocal,
        plan::CreateGradNormLocal(builder, grads, partial).Union());
  };
}

StepDraft test::gradNormCombine(uint32_t partials, uint32_t hyper,
                                uint32_t stats) {
  return [=](Builder &builder) {
    return std::pair(
        plan::Kernel::GradNormCombine,
        plan::CreateGradNormCombine(builder, partials, hyper, stats).Union());
  };
}

StepDraft test::shardedAdamW(std::vector<int64_t> buckets) {
  return [=](Builder &builder) {
    auto list = [&](uint32_t view) {
      return builder.CreateVector(
          std::vector<uint32_t>(std::max<size_t>(1, buckets.size()), view));
    };
    auto params = list(ShardedValue), grads = list(ShardedGradient),
         moments1 = list(ShardedMoment1), moments2 = list(ShardedMoment2);
    // Without buckets, as in a plan for one rank.
    auto ids =
        builder.CreateVector(std::vector<int64_t>(buckets.empty() ? 1 : 0));
    auto numbers = builder.CreateVector(buckets);
    return std::pair(plan::Kernel::AdamW,
                     plan::CreateAdamW(builder, params, grads, moments1,
                                       moments2, 0, ShardedHyper, ShardedStats,
                                       ShardedRng, ids, true, numbers)
                         .Union());
  };
}

/// Scratch bytes of the plan's only GEMM, as the compiler would reserve them.
static uint64_t gemmWorkspace() {
  GemmArgs args;
  args.transposeB = true;
  auto set = [](BufferType &type, int64_t rows, int64_t columns) {
    type.rank = 2;
    type.shape = {rows, columns};
    type.strides = {columns, 1};
  };
  set(args.a, 4, 8);
  set(args.b, 6, 8);
  set(args.c, 4, 6);
  return std::max<uint64_t>(64, (cpuWorkspaceBytes(args) + 63) / 64 * 64);
}

PlanDraft test::matrixPlan() {
  using Class = plan::BufferClass;
  PlanDraft draft;
  uint64_t scratch = gemmWorkspace();
  draft.arenas = {plan::Arena(256, Class::Parameter),
                  plan::Arena(192, Class::Gradient),
                  plan::Arena(128, Class::Input),
                  plan::Arena(128, Class::Output),
                  plan::Arena(256, Class::Activation),
                  plan::Arena(scratch, Class::Workspace)};
  // offset, size, arena, program, first, last
  draft.buffers = {{0, 256, 0},    {0, 192, 1},         {0, 128, 2},
                   {0, 96, 3},     {0, 96, 4, 0, 0, 1}, {128, 96, 4, 0, 1, 2},
                   {0, scratch, 5}};
  using enum plan::ElementType;
  draft.types = {tensor(F32, {4, 8}), tensor(F32, {6, 8}), tensor(F32, {4, 6}),
                 tensor(F32, {2, 8})};
  // buffer, type, byte offset; in the order of MatrixView
  draft.views = {plan::View(2, 0, 0), plan::View(0, 1, 0),
                 plan::View(4, 2, 0), plan::View(3, 2, 0),
                 plan::View(1, 1, 0), plan::View(0, 3, 192),
                 plan::View(5, 2, 0)};
  draft.parameters = {{"w", ViewW, ViewGradient}, {"v", ViewV}};
  draft.parameters[1].stackIndex = 1;
  draft.programs = {
      {"forward",
       {{"x", ViewX}},
       {{"y", ViewY}},
       {gemm(ViewX, ViewW, ViewH), copy(ViewH, ViewT), copy(ViewT, ViewY)}},
      {"clear", {}, {}, {fill(ViewGradient, 0)}}};
  draft.workspace = 6;
  return draft;
}

PlanDraft test::shardedPlan() {
  using Class = plan::BufferClass;
  using enum plan::ElementType;
  PlanDraft draft;
  draft.worldSize = 2;
  draft.workspace = 12;
  uint64_t scratch = gemmWorkspace();
  draft.arenas = {plan::Arena(256, Class::Parameter),
                  plan::Arena(256, Class::Gradient),
                  plan::Arena(256, Class::Moment1),
                  plan::Arena(256, Class::Moment2),
                  plan::Arena(256, Class::Input),
                  plan::Arena(192, Class::Output),
                  plan::Arena(1024, Class::Activation),
                  plan::Arena(scratch, Class::Workspace)};
  // offset, size, arena, program, first, last
  draft.buffers = {{0, 256, 0},
                   {0, 256, 1},
                   {0, 256, 2},
                   {0, 256, 3},
                   {0, 128, 4},
                   {128, 32, 4},
                   {192, 8, 4},
                   {0, 96, 5},
                   {128, 16, 5},
                   {0, 512, 6, 0, 0, 1},
                   {512, 512, 6, 0, 2, 3},
                   {0, 8, 6, 1, 0, 2},
                   {0, scratch, 7},
                   {64, 16, 6, 1, 1, 2}};
  draft.types = {tensor(F32, {4, 8}), tensor(F32, {8}),    tensor(I32, {2}),
                 tensor(F32, {4, 6}), tensor(F32, {4}),    tensor(F32, {64}),
                 tensor(F32, {128}),  tensor(F32, {6, 8}), tensor(F64, {1}),
                 tensor(F64, {2}),    tensor(F32, {2, 8})};
  // buffer, type, byte offset; in the order of ShardedView
  draft.views = {
      plan::View(4, 0, 0),  plan::View(5, 1, 0), plan::View(6, 2, 0),
      plan::View(7, 3, 0),  plan::View(8, 4, 0), plan::View(0, 5, 0),
      plan::View(1, 5, 0),  plan::View(2, 5, 0), plan::View(3, 5, 0),
      plan::View(9, 6, 0),  plan::View(9, 7, 0), plan::View(10, 6, 0),
      plan::View(11, 8, 0), plan::View(13, 9, 0)};
  draft.buckets = {{"layer.f32", F32, 128, ShardedValue, ShardedGradient,
                    ShardedMoment1, ShardedMoment2}};
  auto parameter = [](const char *name, uint64_t offset, uint32_t type) {
    ParameterDraft result{name, noPlanId};
    result.bucket = 0;
    result.bucketOffset = offset;
    result.type = type;
    return result;
  };
  draft.parameters = {parameter("w", 0, 7), parameter("v", 48, 10)};
  draft.parameters[1].stack = 1;
  draft.programs = {
      {"micro_step",
       {{"x", ShardedX}},
       {{"y", ShardedY}},
       {allGather(ShardedValue, ShardedFull),
        gemm(ShardedX, ShardedW, ShardedY), fill(ShardedGrads, 0.5),
        reduceScatter(ShardedGrads, ShardedGradient)}},
      {"update",
       {{"hyper", ShardedHyper}, {"rng", ShardedRng}},
       {{"stats", ShardedStats}},
       {gradNormLocal(ShardedGradient, ShardedPartial),
        allGather(ShardedPartial, ShardedPartials),
        gradNormCombine(ShardedPartials, ShardedHyper, ShardedStats),
        shardedAdamW({0})}}};
  draft.programs[0].streams = {{0, 1}, {3, 1}};
  draft.programs[0].waits = {{1, {0}}, {3, {2}}};
  draft.programs[1].streams = {{1, 1}};
  draft.programs[1].waits = {{1, {0}}, {2, {1}}};
  return draft;
}

StatusOr<Plan> test::parse(const std::string &bytes) {
  return Plan::parse(std::as_bytes(std::span(bytes)), "plan");
}

std::string test::withRightHash(std::string bytes) {
  bytes.resize(bytes.size() - planTrailerBytes);
  return bytes + planTrailer(std::as_bytes(std::span(bytes)));
}
