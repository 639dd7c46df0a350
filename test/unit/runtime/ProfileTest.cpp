//===- ProfileTest.cpp - Sums, tables and the trace of a profile ----------===//

#include "TemporaryFolder.h"
#include "TinyPlan.h"
#include "runtime/profile/MeasureProfile.h"
#include "runtime/support/Json.h"

#include <algorithm>
#include <map>

using namespace qwen;

namespace {

LaunchFacts launch(const char *kernel, const char *shape, const char *label,
                   int64_t flops, int64_t bytes) {
  LaunchFacts facts;
  facts.kernel = kernel;
  facts.shape = shape;
  facts.label = label;
  facts.flops = flops;
  facts.bytes = bytes;
  return facts;
}

/// Two layers, a loss, their backward with one value computed again, and an
/// update; two steps.
StepProfile sampleProfile() {
  ProfiledProgram micro;
  micro.name = "micro_step";
  micro.launches = {
      launch("embedding", "8x4", "", 0, 100),
      launch("gemm", "8x4x4 nt", "model.layers.0 gdn_layer_forward", 256, 400),
      launch("attention", "8x1x4, 8x1x4",
             "model.layers.1 attention_layer_forward", 0, 300),
      launch("linear_cross_entropy_grad", "8x4, 9x4", "", 600, 500),
      launch("gemm", "8x4x4 nt",
             "model.layers.1 attention_layer_backward recomputed", 256, 400),
      launch("gemm", "8x4x4 nn", "model.layers.1 attention_layer_backward", 256,
             400),
      launch("gemm", "8x4x4 nn", "model.layers.0 gdn_layer_backward", 256, 400),
      launch("embedding_grad", "8x4", "", 32, 200)};
  micro.launches[2].flopsPerPair = 10;
  ProfiledProgram update;
  update.name = "update";
  update.launches = {launch("adamw", "2 tensors", "", 100, 1000)};
  StepProfile profile;
  for (ProfiledProgram *program : {&micro, &update}) {
    program->places = launchPlaces(program->launches);
    program->deviceKernels.assign(program->launches.size(), 1);
    program->deviceKernels[0] = 3;
    profile.programs.push_back(*program);
  }
  for (float scale : {1.0f, 3.0f}) {
    std::vector<ProgramRun> &step = profile.steps.emplace_back();
    for (double pairs : {10.0, 20.0}) {
      ProgramRun run{0, pairs, {1, 2, 3, 4, 5, 6, 7, 8}};
      for (float &time : run.milliseconds)
        time *= scale;
      step.push_back(std::move(run));
    }
    step.push_back({1, 0, {10 * scale}});
  }
  return profile;
}

const ProfileRow *findRow(const std::vector<ProfileRow> &rows,
                          const std::string &kernel,
                          const std::string &shape = "") {
  for (const ProfileRow &row : rows)
    if (row.kernel == kernel && row.shape == shape)
      return &row;
  return nullptr;
}

} // namespace

TEST(ProfileTest, SumsByKernelAreMeansOfAStep) {
  auto rows = rowsByKernel(sampleProfile());
  EXPECT_EQ(rows.size(), 7u);
  const ProfileRow *gemm = findRow(rows, "gemm", "8x4x4 nt");
  ASSERT_NE(gemm, nullptr);
  EXPECT_DOUBLE_EQ(gemm->calls, 4);         // two micro-steps of two
  EXPECT_DOUBLE_EQ(gemm->milliseconds, 28); // (2 + 5) 2 (1 + 3) / 2
  EXPECT_DOUBLE_EQ(gemm->flops, 4 * 256);
  const ProfileRow *attention = findRow(rows, "attention", "8x1x4, 8x1x4");
  ASSERT_NE(attention, nullptr);
  EXPECT_DOUBLE_EQ(attention->flops, 10 * (10 + 20));
  EXPECT_DOUBLE_EQ(findRow(rows, "embedding", "8x4")->deviceKernels, 6);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end(), [](auto &a, auto &b) {
    return a.milliseconds > b.milliseconds;
  }));
}

TEST(ProfileTest, StagesAndLayerKindsAddUpToTheWhole) {
  StepProfile profile = sampleProfile();
  double whole = totalOf(rowsByKernel(profile)).milliseconds;
  EXPECT_DOUBLE_EQ(whole, 2 * (2 * 36 + 10));
  auto stages = rowsByStage(profile);
  EXPECT_DOUBLE_EQ(totalOf(stages).milliseconds, whole);
  std::map<std::string, double> byStage;
  for (const ProfileRow &row : stages)
    byStage[row.kernel] = row.milliseconds / 4;
  EXPECT_EQ(byStage, (std::map<std::string, double>{{"forward", 1 + 2 + 3},
                                                    {"loss", 4},
                                                    {"recompute", 5},
                                                    {"backward", 6 + 7 + 8},
                                                    {"update", 5}}));
  auto kinds = rowsByLayerKind(profile);
  EXPECT_DOUBLE_EQ(totalOf(kinds).milliseconds, whole);
  EXPECT_DOUBLE_EQ(findRow(kinds, "gdn_layer")->milliseconds, 4 * (2 + 7));
  EXPECT_DOUBLE_EQ(findRow(kinds, "attention_layer")->milliseconds,
                   4 * (3 + 5 + 6));
}

TEST(ProfileTest, TableHasRatesAgainstTheCeilings) {
  StepProfile profile = sampleProfile();
  // adamw: 100 FLOPs and 1000 bytes in 20 ms.
  std::string text = profileTables(profile, {10e3, 100e3, "made up"});
  size_t at = text.find("adamw 2 tensors");
  ASSERT_NE(at, std::string::npos);
  std::string line = text.substr(at, text.find('\n', at) - at);
  EXPECT_NE(line.find("20.000"), std::string::npos) << line;
  EXPECT_NE(line.find("12.2 %"), std::string::npos) << line; // of 164 ms
  EXPECT_NE(line.find("5e-06   50 %"), std::string::npos) << line;
  EXPECT_NE(line.find("5e-05   50 %"), std::string::npos) << line;
}

TEST(ProfileTest, TraceNestsLaunchesInLayersInPassesInPrograms) {
  auto trace = parseJsonObject(profileTrace(sampleProfile()), "trace");
  ASSERT_OK(trace.status());
  struct Slice {
    std::string name, category;
    double begin, end;
  };
  std::vector<Slice> slices;
  for (const Json &event : (*trace)["traceEvents"])
    if (event["ph"] == "X")
      slices.push_back({event["name"], event["cat"], event["ts"],
                        double(event["ts"]) + double(event["dur"])});
  std::map<std::string, int> counts;
  std::vector<Slice> open;
  for (const Slice &slice : slices) {
    ++counts[slice.category];
    while (!open.empty() && open.back().end <= slice.begin + 1e-3)
      open.pop_back();
    std::string path;
    for (const Slice &parent : open) {
      EXPECT_GE(slice.begin, parent.begin - 1e-3);
      EXPECT_LE(slice.end, parent.end + 1e-3);
      path += parent.category + " ";
    }
    if (slice.category == "launch") {
      bool inLayer = slice.name == "gemm" || slice.name == "attention";
      EXPECT_EQ(path,
                inLayer ? "step program pass layer " : "step program pass ");
    }
    open.push_back(slice);
  }
  EXPECT_EQ(counts["step"], 2);
  EXPECT_EQ(counts["program"], 2 * 3);
  EXPECT_EQ(counts["pass"], 2 * (2 * 3 + 1));
  EXPECT_EQ(counts["layer"], 2 * 2 * 4);
  EXPECT_EQ(counts["launch"], 2 * (2 * 8 + 1));
}

/// Launches of a second stream stand beside those that they are hidden by; a
/// gap between two layers belongs to neither.
TEST(ProfileTest, TraceShowsTwoStreamsWhereTheyWereTimed) {
  ProfiledProgram program;
  program.name = "micro_step";
  program.launches = {
      launch("all_gather", "8", "", 0, 100),
      launch("gemm", "8x4x4 nt", "model.layers.0 gdn_layer_forward", 256, 400),
      launch("all_gather", "8", "", 0, 100),
      launch("gemm", "8x4x4 nt", "model.layers.1 gdn_layer_forward", 256, 400),
      launch("reduce_scatter", "8", "", 0, 100)};
  for (size_t i : {0, 2, 4})
    program.launches[i].stream = 1;
  program.places = launchPlaces(program.launches);
  program.deviceKernels.assign(program.launches.size(), 1);
  StepProfile profile;
  profile.programs.push_back(program);
  profile.steps.push_back({{0, 0, {2, 3, 4, 1, 2}, {0, 2, 2, 7, 8}}});
  auto trace = parseJsonObject(profileTrace(profile), "trace");
  ASSERT_OK(trace.status());
  std::vector<std::string> slices;
  for (const Json &event : (*trace)["traceEvents"])
    if (event["ph"] == "X" && event["cat"] != "pass")
      slices.push_back(
          fmt::format("{} {} {:g} {:g}", event["name"].get<std::string>(),
                      event["tid"].get<int>(), event["ts"].get<double>() * 1e-3,
                      event["dur"].get<double>() * 1e-3));
  EXPECT_EQ(slices,
            (std::vector<std::string>{
                "step 1 1 0 10", "micro_step 1 0 10", "all_gather 2 0 2",
                "model.layers.0 gdn_layer 1 2 3", "gemm 1 2 3",
                "all_gather 2 2 4", "model.layers.1 gdn_layer 1 7 1",
                "gemm 1 7 1", "reduce_scatter 2 8 2"}));
}

TEST(ProfileTest, MeasuresEveryLaunchOfAPlan) {
  std::string bytes = makeTinyPlan({});
  auto plan = Plan::parse(std::as_bytes(std::span(bytes)), "tiny");
  ASSERT_OK(plan.status());
  auto executor = Executor::create(*plan, {});
  ASSERT_OK(executor.status());
  int micro = *plan->findProgram("micro_step");
  int update = *plan->findProgram("update");
  int inputs = 0;
  auto count = [&] { ++inputs; };
  const StepPart step[] = {
      {micro, 3, count}, {micro, 5, count}, {update, 0, count}};
  auto measured = measureStep(**executor, step, 2, 3);
  ASSERT_OK(measured.status());
  EXPECT_EQ(inputs, 3 * (2 + 3 + 3));
  EXPECT_GT(measured->replayMilliseconds, 0);
  const StepProfile &profile = measured->profile;
  ASSERT_EQ(profile.programs.size(), 2u);
  ASSERT_EQ(profile.steps.size(), 3u);
  int64_t launches = 2 * plan->programs()[size_t(micro)].launches +
                     plan->programs()[size_t(update)].launches;
  EXPECT_DOUBLE_EQ(totalOf(rowsByKernel(profile)).calls, double(launches));
  for (const auto &runs : profile.steps)
    for (const ProgramRun &run : runs)
      for (float time : run.milliseconds)
        EXPECT_GE(time, 0);
  EXPECT_NEAR(measured->computeMilliseconds,
              totalOf(rowsByKernel(profile)).milliseconds,
              1e-9 * measured->computeMilliseconds);
  EXPECT_EQ(measured->communicationMilliseconds, 0);
  EXPECT_EQ(measured->exposedMilliseconds, 0);
}
