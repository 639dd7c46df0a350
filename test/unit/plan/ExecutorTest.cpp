//===- ExecutorTest.cpp - Runs small plans --------------------------------===//

#include "runtime/executor/Executor.h"
#include "PlanDraft.h"
#include "qwen/Plan/CudaKernels.h"
#include "runtime/plan/ElfSymbols.h"
#include "runtime/support/File.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

using namespace qwen;
using namespace qwen::test;

namespace {

std::unique_ptr<Executor> makeExecutor(const PlanDraft &draft,
                                       ExecutorOptions options = {}) {
  auto plan = parse(draft.build());
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  auto executor = Executor::create(*plan, options);
  EXPECT_TRUE(executor.ok()) << executor.status().message();
  return std::move(executor).value();
}

std::span<float> floats(const Buffer &buffer) {
  return {buffer.as<float>(), static_cast<size_t>(buffer.elements())};
}

/// Small integers, so that every sum is exact.
void fillSmall(const Buffer &buffer, int start) {
  for (float &value : floats(buffer))
    value = static_cast<float>(start++ % 7 - 3);
}

float product(const Executor &executor, int row, int column) {
  std::span<float> x = floats(*executor.input("x"));
  std::span<float> w = floats(executor.parameter(0));
  return std::inner_product(&x[row * 8], &x[row * 8] + 8, &w[column * 8], 0.0f);
}

TEST(Executor, RunsAProgram) {
  auto executor = makeExecutor(matrixPlan());
  fillSmall(*executor->input("x"), 0);
  fillSmall(executor->parameter(0), 3);
  ASSERT_TRUE(executor->run(0).ok());
  std::span<float> y = floats(*executor->output(0, "y"));
  for (int row = 0; row < 4; ++row)
    for (int column = 0; column < 6; ++column)
      EXPECT_EQ(y[row * 6 + column], product(*executor, row, column));
  EXPECT_EQ(executor->input("z"), std::nullopt);
  EXPECT_EQ(executor->output(0, "z"), std::nullopt);
  EXPECT_EQ(executor->output(1, "y"), std::nullopt);
}

TEST(Executor, PersistentMemoryStartsAsZerosAndStays) {
  auto executor = makeExecutor(matrixPlan(), {.poison = true});
  for (float value : floats(executor->parameter(0)))
    ASSERT_EQ(value, 0);
  fillSmall(executor->gradient(0), 1);
  ASSERT_TRUE(executor->run(0).ok());
  EXPECT_EQ(floats(executor->gradient(0))[0], -2);
  ASSERT_TRUE(executor->run(1).ok());
  for (float value : floats(executor->gradient(0)))
    EXPECT_EQ(value, 0);
  EXPECT_EQ(executor->moment1(0).data, nullptr);
  EXPECT_EQ(executor->gradient(1).data, nullptr);
}

TEST(Executor, StackedParametersAreNeighbours) {
  auto executor = makeExecutor(matrixPlan());
  EXPECT_EQ(executor->parameter(1).as<float>(),
            executor->parameter(0).as<float>() + 48);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(executor->parameter(0).data) % 64, 0u);
}

TEST(Executor, PoisonShowsWhatIsNotWritten) {
  auto executor = makeExecutor(matrixPlan(), {.poison = true});
  ASSERT_TRUE(executor->runPrefix(0, 2).ok());
  EXPECT_TRUE(std::isnan(floats(*executor->output(0, "y"))[0]));
  ASSERT_TRUE(executor->run(0).ok());
  EXPECT_EQ(floats(*executor->output(0, "y"))[0], 0);
}

TEST(Executor, KeepsTheOutputsOfManyRuns) {
  auto executor = makeExecutor(matrixPlan());
  fillSmall(executor->parameter(0), 3);
  std::vector<RunTicket> runs;
  for (int i = 0; i <= runsInFlight; ++i) {
    for (float &value : floats(*executor->input("x")))
      value = static_cast<float>(i);
    auto run = executor->start(0);
    ASSERT_TRUE(run.ok()) << run.status().message();
    EXPECT_EQ(run->number, i);
    runs.push_back(*run);
  }
  ASSERT_TRUE(executor->finish(runs.back()).ok());
  // The first run's slot is the last one's now.
  EXPECT_EQ(executor->output(runs[0], 0, "y"), std::nullopt);
  float unit = floats(*executor->output(runs[1], 0, "y"))[1];
  EXPECT_NE(unit, 0);
  for (int i = 1; i <= runsInFlight; ++i) {
    auto y = executor->output(runs[size_t(i)], 0, "y");
    ASSERT_TRUE(y);
    EXPECT_EQ(floats(*y)[1], float(i) * unit);
  }
  EXPECT_EQ(executor->output(runs[1], 1, "y"), std::nullopt);
  EXPECT_EQ(executor->output({runsInFlight + 1}, 0, "y"), std::nullopt);
}

TEST(Executor, ThreadsDoNotChangeTheResult) {
  std::vector<float> results[2];
  for (int threads : {1, 3}) {
    auto executor = makeExecutor(matrixPlan(), {.threads = threads});
    fillSmall(*executor->input("x"), 2);
    fillSmall(executor->parameter(0), 5);
    ASSERT_TRUE(executor->run(0).ok());
    std::span<float> y = floats(*executor->output(0, "y"));
    results[threads == 3].assign(y.begin(), y.end());
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(Executor, CallsGeneratedCode) {
  PlanDraft draft = matrixPlan();
  auto code = readTextFile(QWEN_TEST_CODE);
  ASSERT_TRUE(code.ok()) << code.status().message();
  draft.code = *code;
  draft.codeSymbols = {{"twice", {{96, 4}, {96, 4}}}};
  draft.programs[0].steps[1] = group(ViewH, ViewT, "twice", 4);
  auto executor = makeExecutor(draft);
  fillSmall(*executor->input("x"), 0);
  fillSmall(executor->parameter(0), 3);
  ASSERT_TRUE(executor->run(0).ok());
  EXPECT_EQ(floats(*executor->output(0, "y"))[7], 2 * product(*executor, 1, 1));
}

TEST(Executor, GeneratedCodeMayBeCutAnywhere) {
  auto code = readTextFile(QWEN_TEST_CODE);
  ASSERT_TRUE(code.ok());
  auto whole = exportedFunctions(std::as_bytes(std::span(*code)));
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  EXPECT_TRUE(whole->contains("twice"));
  EXPECT_FALSE(whole->contains("thrice"));
  for (size_t size = 0; size < code->size(); size += 13) {
    std::string cut = code->substr(0, size);
    auto symbols = exportedFunctions(std::as_bytes(std::span(cut)));
    EXPECT_EQ(symbols.ok(), symbols.status().message().empty());
  }
  // Section headers and symbols that point anywhere.
  for (size_t i = 0; i < code->size(); i += 3) {
    std::string changed = *code;
    changed[i] = '\xff';
    (void)exportedFunctions(std::as_bytes(std::span(changed))).ok();
  }
}

TEST(Executor, ChecksTheProcessor) {
  EXPECT_TRUE(checkCpuTarget("x86-64").ok());
  Status status = checkCpuTarget("sm_90a");
  EXPECT_EQ(status.code(), StatusCode::FailedPrecondition);
  EXPECT_NE(status.message().find("sm_90a"), std::string::npos);
  EXPECT_FALSE(checkCpuTarget("x86-64-v9").ok());
}

TEST(Executor, NamesTheTargetThatThisMachineOrBuildLacks) {
  PlanDraft draft = matrixPlan();
  draft.target = "sm_90a";
  auto scratch = uint64_t(cuda::workspaceBytes(GemmArgs()));
  draft.arenas[5] = plan::Arena(scratch, plan::BufferClass::Workspace);
  draft.buffers[6].size = scratch;
  auto plan = parse(draft.build());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  auto executor = Executor::create(*plan, {.device = 1000});
  ASSERT_FALSE(executor.ok());
  EXPECT_EQ(executor.status().code(), StatusCode::FailedPrecondition);
  EXPECT_TRUE(
      executor.status().message().starts_with("the plan is for sm_90a; "))
      << executor.status().message();
}

TEST(Executor, RefusesMoreMemoryThanThereIs) {
  PlanDraft draft = matrixPlan();
  draft.arenas[4] =
      plan::Arena(uint64_t(1) << 39, plan::BufferClass::Activation);
  auto plan = parse(draft.build());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  auto executor = Executor::create(*plan, {});
  ASSERT_FALSE(executor.ok());
  EXPECT_EQ(executor.status().code(), StatusCode::ResourceExhausted);
  EXPECT_NE(executor.status().message().find("needs 512.00 GiB"),
            std::string::npos)
      << executor.status().message();
}

} // namespace
