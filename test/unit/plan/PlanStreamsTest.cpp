//===- PlanStreamsTest.cpp - Streams and waits of plans -------------------===//
//
// What waits a plan for several ranks needs, and what a well-formed one may not
// say about them.
//
//===----------------------------------------------------------------------===//

#include "PlanFault.h"

using namespace qwen;
using namespace qwen::test;

namespace {

class PlanStreamsFault : public testing::TestWithParam<PlanFault> {};

TEST_P(PlanStreamsFault, IsRefusedWithItsPlace) {
  expectRefused(shardedPlan(), GetParam());
}

const PlanFault faults[] = {
    {"ReadsWithoutWait", [](PlanDraft &d) { d.programs[0].waits.erase(1); },
     "program 0 'micro_step': step 1 (Gemm): does not wait for step 0 "
     "(AllGather) of stream 1, which writes bytes [0, 192) of arena 6 that it "
     "reads"},
    {"ScattersWithoutWait", [](PlanDraft &d) { d.programs[0].waits.erase(3); },
     "step 3 (ReduceScatter): does not wait for step 2 (Fill) of stream 0, "
     "which writes bytes [512, 1024) of arena 6 that it writes"},
    {"WritesWithoutWait",
     [](PlanDraft &d) {
       d.programs[1].steps.insert(
           d.programs[1].steps.begin() + 2,
           gradNormLocal(ShardedGradient, ShardedPartial));
       d.buffers[13].last = 3;
       d.programs[1].waits = {{1, {0}}, {3, {1}}};
     },
     "step 2 (GradNormLocal): does not wait for step 1 (AllGather) of stream "
     "1, which reads bytes [0, 8) of arena 6 that it writes"},
    {"WaitTooEarly",
     [](PlanDraft &d) {
       // Two fills: the scatter must wait for the second.
       d.programs[0].steps.insert(d.programs[0].steps.begin() + 3,
                                  fill(ShardedGrads, 1));
       d.buffers[10].last = 4;
       d.programs[0].streams = {{0, 1}, {4, 1}};
       d.programs[0].waits = {{1, {0}}, {4, {2}}};
     },
     "step 4 (ReduceScatter): does not wait for step 3 (Fill)"},
    {"ReusedWithoutWait",
     [](PlanDraft &d) {
       // The joined gradients take the gathered bucket's place while it may
       // still be gathered.
       d.programs[0].steps[1] = fill(ShardedY, 0);
       d.programs[0].waits.erase(1);
       d.buffers[9].last = 1;
       d.buffers[10].offset = 0;
     },
     "step 2 (Fill): does not wait for step 0 (AllGather) of stream 1, which "
     "writes bytes [0, 512) of arena 6 that it writes"},
    {"WaitsForLater", [](PlanDraft &d) { d.programs[0].waits[1] = {0, 3}; },
     "step 1 (Gemm): waits for step 3, which is no earlier one"},
    {"WaitsForItself", [](PlanDraft &d) { d.programs[0].waits[3] = {2, 3}; },
     "step 3 (ReduceScatter): waits for step 3, which is no earlier one"},
    {"WaitsForNothing",
     [](PlanDraft &d) { d.programs[0].waits[1] = {4000000000}; },
     "waits for step 4000000000, which is no earlier one"},
    {"WaitsForOwnStream", [](PlanDraft &d) { d.programs[0].waits[2] = {1}; },
     "step 2 (Fill): waits for step 1 of its own stream 0"},
    {"TooManyStreams", [](PlanDraft &d) { d.programs[0].streams[0] = 2; },
     "step 0 (AllGather): stream 2, a plan has 2"},
    {"CollectiveOnStreamOfComputation",
     [](PlanDraft &d) { d.programs[0].streams.erase(0); },
     "step 0 (AllGather): stream 0, expected 1 for a kernel that talks to "
     "other ranks"},
};

INSTANTIATE_TEST_SUITE_P(Streams, PlanStreamsFault, testing::ValuesIn(faults),
                         [](const auto &info) { return info.param.name; });

/// The third fill knows by the second's wait that the gather is done, and the
/// scatter by its own wait that the fills are.
TEST(PlanStreams, WaitsOrderWhatFollowsToo) {
  PlanDraft draft = shardedPlan();
  ProgramDraft &program = draft.programs[0];
  program.steps = {allGather(ShardedValue, ShardedFull),
                   fill(ShardedY, 0),
                   fill(ShardedFull, 0),
                   fill(ShardedFull, 1),
                   fill(ShardedGrads, 0),
                   reduceScatter(ShardedGrads, ShardedGradient)};
  program.streams = {{0, 1}, {5, 1}};
  program.waits = {{2, {0}}, {5, {4}}};
  draft.buffers[9].last = 4;
  draft.buffers[10].first = 4;
  draft.buffers[10].last = 5;
  auto plan = parse(draft.build());
  EXPECT_TRUE(plan.ok()) << plan.status().message();
}

} // namespace
