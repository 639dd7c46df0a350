//===- PlanVerifierTest.cpp - What a well-formed plan may not say ---------===//
//
// Each case spoils one thing of a valid plan and expects its own message.
//
//===----------------------------------------------------------------------===//

#include "PlanFault.h"

using namespace qwen;
using namespace qwen::test;
using enum plan::ElementType;

namespace {

class PlanVerifierFault : public testing::TestWithParam<PlanFault> {};

TEST_P(PlanVerifierFault, IsRefusedWithItsPlace) {
  expectRefused(matrixPlan(), GetParam());
}

const PlanFault headerFaults[] = {
    {"Schema", [](PlanDraft &d) { d.schemaVersion = 9; },
     "plan format 9 made by qwenc 1.2.3 (--recompute=none); this runtime reads "
     "format 1",
     StatusCode::FailedPrecondition},
    {"KernelTables", [](PlanDraft &d) { d.kernelAbi ^= 1; },
     "made by qwenc 1.2.3", StatusCode::FailedPrecondition},
    {"Target", [](PlanDraft &d) { d.target = "sm_80"; },
     "plan for target 'sm_80'", StatusCode::FailedPrecondition},
    {"NoRanks", [](PlanDraft &d) { d.worldSize = 0; },
     "world_size is 0, expected 1 to 4096"},
    {"NoTokens", [](PlanDraft &d) { d.tokens = 0; }, "tokens is 0"},
    {"NegativeDocuments", [](PlanDraft &d) { d.maxDocuments = -1; },
     "max_documents is"},
    {"NoVocabulary", [](PlanDraft &d) { d.vocabSize = 0; }, "vocab_size is 0"},
    {"Forecast", [](PlanDraft &d) { d.forecastError = 64; },
     "forecast of activations: 320 bytes, the plan holds 256"},
};

const PlanFault memoryFaults[] = {
    {"ArenaClass",
     [](PlanDraft &d) {
       d.arenas[4] = plan::Arena(256, static_cast<plan::BufferClass>(77));
     },
     "arena 4: unknown class 77"},
    {"ArenaSize",
     [](PlanDraft &d) {
       d.arenas[0] = plan::Arena(uint64_t(1) << 50, d.arenas[0].holds());
     },
     "arena 0: size"},
    {"ArenaAlignment",
     [](PlanDraft &d) { d.arenas[0] = plan::Arena(250, d.arenas[0].holds()); },
     "arena 0: size 250, expected a multiple of 64"},
    {"BufferArena", [](PlanDraft &d) { d.buffers[0].arena = 65535; },
     "buffer 0: arena 65535, the plan has 6"},
    {"BufferOutside", [](PlanDraft &d) { d.buffers[0].offset = 64; },
     "buffer 0: 256 bytes at 64 are not inside arena 0 of 256 bytes"},
    {"BufferNegative", [](PlanDraft &d) { d.buffers[1].size = -64; },
     "buffer 1:"},
    {"BufferAlignment", [](PlanDraft &d) { d.buffers[5].offset = 132; },
     "buffer 5: offset 132 is no multiple of 64"},
    {"BufferProgram", [](PlanDraft &d) { d.buffers[4].program = 2; },
     "buffer 4: program 2, the plan has 2"},
    {"PersistentProgram", [](PlanDraft &d) { d.buffers[0].program = 0; },
     "buffer 0: persistent, but belongs to program 0"},
    {"PersistentLifetime", [](PlanDraft &d) { d.buffers[0].last = 1; },
     "buffer 0: persistent, but has a lifetime"},
    {"BufferLifetime", [](PlanDraft &d) { d.buffers[5].last = 3; },
     "buffer 5: lives from step 1 to 3 of 3 steps"},
    {"BufferBackwards", [](PlanDraft &d) { d.buffers[4].first = 2; },
     "buffer 4: lives from step 2 to 1"},
    {"Overlap", [](PlanDraft &d) { d.buffers[5].offset = 64; },
     "buffers 4 and 5 overlap in arena 4"},
    {"ElementType",
     [](PlanDraft &d) {
       d.types[0] = tensor(static_cast<plan::ElementType>(9), {4, 8});
     },
     "type 0: unknown element type 9"},
    {"Rank",
     [](PlanDraft &d) {
       int64_t zero[4] = {};
       flatbuffers::span<const int64_t, 4> none(zero, 4);
       d.types[0] = plan::TensorType(none, none, F32, 5);
     },
     "type 0: rank 5, at most 4"},
    {"NegativeDimension",
     [](PlanDraft &d) { d.types[0] = tensor(F32, {4, -8}, {8, 1}); },
     "type 0: dimension 1 has size -8"},
    {"EmptyDimension",
     [](PlanDraft &d) { d.types[0] = tensor(F32, {0, 8}, {8, 1}); },
     "type 0: dimension 0 has size 0"},
    {"NegativeStride",
     [](PlanDraft &d) { d.types[0] = tensor(F32, {4, 8}, {-8, 1}); },
     "type 0: dimension 0 has size 4 and stride -8"},
    {"Overflow",
     [](PlanDraft &d) {
       int64_t huge = int64_t(1) << 39;
       d.types[0] = tensor(F32, {huge, huge}, {1, 1});
     },
     "type 0: more than"},
    // 2^31 (2^32 - 1) + 2^31 is 2^63, one more than 64 bits hold.
    {"ReachOverflow",
     [](PlanDraft &d) {
       int64_t half = int64_t(1) << 31;
       d.types[0] = tensor(F32, {2, half + 1}, {half, 2 * half - 1});
     },
     "type 0: more than"},
    {"ViewBuffer",
     [](PlanDraft &d) { d.views[ViewH] = plan::View(65535, 2, 0); },
     "view 2: buffer 65535, the plan has 7"},
    {"ViewType", [](PlanDraft &d) { d.views[ViewH] = plan::View(4, 99, 0); },
     "view 2: type 99, the plan has 4"},
    {"ViewOutside", [](PlanDraft &d) { d.views[ViewH] = plan::View(4, 2, 4); },
     "view 2: 96 bytes at 4 are not inside buffer 4 of 96 bytes"},
    {"ViewAlignment",
     [](PlanDraft &d) { d.views[ViewV] = plan::View(0, 3, 190); },
     "view 5: byte offset 190 is no multiple of 4"},
    {"Workspace", [](PlanDraft &d) { d.workspace = 0; },
     "workspace: buffer 0 is not of class workspace"},
    {"WorkspaceId", [](PlanDraft &d) { d.workspace = 7; },
     "workspace: buffer 7, the plan has 7"},
};

const PlanFault tableFaults[] = {
    {"ParameterTwice", [](PlanDraft &d) { d.parameters[1].name = "w"; },
     "parameter 1: the name 'w' is empty or used twice"},
    {"ParameterView", [](PlanDraft &d) { d.parameters[0].value = 40; },
     "parameter 0 'w': value: view 40, the plan has 7"},
    {"ParameterClass", [](PlanDraft &d) { d.parameters[0].value = ViewX; },
     "parameter 0 'w': value: view 0 lies in a buffer of class Input"},
    {"GradientShape",
     [](PlanDraft &d) { d.views[ViewGradient] = plan::View(1, 3, 0); },
     "parameter 0 'w': gradient is f32[2, 8], the parameter f32[6, 8]"},
    {"GradientType",
     [](PlanDraft &d) {
       d.types.push_back(tensor(BF16, {6, 8}));
       d.views[ViewGradient] = plan::View(1, 4, 0);
     },
     "gradient has element type bf16, expected f32"},
    {"OneMoment",
     [](PlanDraft &d) {
       d.arenas.emplace_back(192, plan::BufferClass::Moment1);
       d.buffers.push_back({0, 192, 6});
       d.views.emplace_back(7, 1, 0);
       d.parameters[0].moment1 = 7;
     },
     "only one of the two moments exists"},
    {"ParameterOverlap",
     [](PlanDraft &d) {
       d.views[ViewV] = plan::View(0, 3, 64);
       d.parameters[1].stack = 1;
       d.parameters[1].stackIndex = 0;
     },
     "value of parameters 'w' and 'v' overlap"},
    {"StackGap", [](PlanDraft &d) { d.parameters[1].stackIndex = 2; },
     "parameter stack 0: 2 members, but place 2 is used"},
    {"StackOrder",
     [](PlanDraft &d) {
       d.parameters[0].stackIndex = 1;
       d.parameters[1].stackIndex = 0;
     },
     "value of 'v' does not follow 'w'"},
    {"InitStd", [](PlanDraft &d) { d.parameters[0].std = -1; },
     "initial standard deviation -1"},
    {"InitKind",
     [](PlanDraft &d) { d.parameters[0].init = static_cast<plan::Init>(9); },
     "unknown initialisation 9"},
    {"ProgramTwice", [](PlanDraft &d) { d.programs[1].name = "forward"; },
     "program 1: the name 'forward' is empty or used twice"},
    {"InputClass", [](PlanDraft &d) { d.programs[0].inputs[0].view = ViewY; },
     "program 0 'forward': input 0 'x': view 3 lies in a buffer of class "
     "Output"},
    {"OutputTwice",
     [](PlanDraft &d) { d.programs[0].outputs.push_back({"y", ViewY}); },
     "output 1 'y': the name is empty or used twice"},
    {"InputElsewhere",
     [](PlanDraft &d) {
       d.views.emplace_back(2, 3, 0);
       d.programs[1].inputs = {{"x", 7}};
     },
     "program 1 'clear': input 'x' is another buffer or type"},
};

const PlanFault stepFaults[] = {
    {"StepView",
     [](PlanDraft &d) { d.programs[0].steps[1] = copy(65535, ViewT); },
     "program 0 'forward', step 1 (Copy): view 65535, the plan has 7"},
    {"StepShapes",
     [](PlanDraft &d) { d.programs[0].steps[0] = gemm(ViewX, ViewX, ViewH); },
     "program 0 'forward', step 0 (Gemm)"},
    {"Stream", [](PlanDraft &d) { d.programs[0].streams[1] = 1; },
     "step 1 (Copy): stream 1, expected 0 for a kernel that computes"},
    {"Label", [](PlanDraft &d) { d.programs[0].label = 1; },
     "label 1, the plan has 1"},
    {"WritesInput",
     [](PlanDraft &d) { d.programs[0].steps.push_back(fill(ViewX, 1)); },
     "writes buffer 2, which is an input"},
    {"ReadsUnwritten",
     [](PlanDraft &d) { d.programs[0].steps[0] = fill(ViewY, 0); },
     "step 1 (Copy): operand in (view 2): reads buffer 4 where nothing has "
     "written it"},
    {"AddsToUnwritten",
     [](PlanDraft &d) {
       d.programs[0].steps[0] = gemm(ViewX, ViewW, ViewH, true);
     },
     "step 0 (Gemm): operand c (view 2): reads buffer 4 where nothing"},
    {"DeadBuffer",
     [](PlanDraft &d) { d.programs[0].steps[2] = copy(ViewH, ViewY); },
     "step 2 (Copy): operand in (view 2): buffer 4 lives from step 0 to 1"},
    {"OtherProgram",
     [](PlanDraft &d) { d.programs[1].steps.push_back(fill(ViewH, 1)); },
     "program 1 'clear', step 1 (Fill): operand out (view 2): buffer 4 belongs "
     "to program 0"},
    {"WorkspaceOperand",
     [](PlanDraft &d) {
       d.types.push_back(tensor(F32, {16}));
       d.views.emplace_back(6, 4, 0);
       d.programs[1].steps.push_back(fill(7, 1));
     },
     "buffer 6 is workspace"},
    {"Collision",
     [](PlanDraft &d) { d.programs[0].steps[1] = copy(ViewH, ViewH); },
     "operands out (view 2) and in (view 2) share bytes of buffer 4"},
    {"OutputUnwritten",
     [](PlanDraft &d) {
       d.programs[0].steps.pop_back();
       d.buffers[5].last = 1;
     },
     "nothing writes output 'y'"},
    {"NoCode",
     [](PlanDraft &d) {
       d.programs[0].steps[1] = group(ViewH, ViewT, "silu", 4);
     },
     "step 1 (Group): the code has no function 'silu'"},
    {"CodeIsNoElf", [](PlanDraft &d) { d.code = "not machine code at all"; },
     "the code is no ELF object (23 bytes)"},
    {"CodeTarget",
     [](PlanDraft &d) {
       d.code = "x";
       d.codeTarget = "x86-64-v4";
     },
     "code for target 'x86-64-v4' in a plan for 'x86-64'"},
};

std::string faultName(const testing::TestParamInfo<PlanFault> &info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Header, PlanVerifierFault,
                         testing::ValuesIn(headerFaults), faultName);
INSTANTIATE_TEST_SUITE_P(Memory, PlanVerifierFault,
                         testing::ValuesIn(memoryFaults), faultName);
INSTANTIATE_TEST_SUITE_P(Tables, PlanVerifierFault,
                         testing::ValuesIn(tableFaults), faultName);
INSTANTIATE_TEST_SUITE_P(Steps, PlanVerifierFault,
                         testing::ValuesIn(stepFaults), faultName);

TEST(PlanVerifier, AcceptsMemoryThatIsReusedLater) {
  PlanDraft draft = matrixPlan();
  draft.programs[0].steps.insert(draft.programs[0].steps.begin() + 2,
                                 copy(ViewT, ViewY));
  // Step 3 is the second copy; a buffer at the first one's place from step 2.
  draft.buffers.push_back({0, 96, 4, 0, 2, 3});
  draft.buffers[5].last = 3;
  auto plan = parse(draft.build());
  EXPECT_TRUE(plan.ok()) << plan.status().message();
}

} // namespace
