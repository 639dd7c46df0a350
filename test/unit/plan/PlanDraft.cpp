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
  for (const StepDraft &step : draft.steps) {
    auto [kernel, table] = step(builder);
    steps.push_back(
        plan::CreateStep(builder, kernel, table, draft.stream, draft.label));
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
        p.moment2, p.master, p.init, p.std, true, p.stack, p.stackIndex));
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
  auto labels =
      builder.CreateVectorOfStrings(std::vector<std::string>{"layer 0"});
  plan::FinishPlanBuffer(
      builder,
      plan::CreatePlan(builder, schemaVersion, kernelAbi, version, flags,
                       targetText, worldSize, tokens, maxDocuments, vocabSize,
                       facts, terms, forecast, arenaTable, bufferTable,
                       typeTable, viewTable, parameterTable, programTable,
                       labels, codeTable, workspace));
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

StatusOr<Plan> test::parse(const std::string &bytes) {
  return Plan::parse(std::as_bytes(std::span(bytes)), "plan");
}

std::string test::withRightHash(std::string bytes) {
  bytes.resize(bytes.size() - planTrailerBytes);
  return bytes + planTrailer(std::as_bytes(std::span(bytes)));
}
