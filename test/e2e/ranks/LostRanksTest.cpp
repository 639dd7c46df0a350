//===- LostRanksTest.cpp - Ranks that go wrong, and wrong numbers of them -===//

#include "Mpirun.h"
#include "TrainCommand.h"

#include "test/unit/runtime/TokenFile.h"

#include "runtime/support/Json.h"

#include <csignal>
#include <limits>

using namespace qwen;
using namespace qwen::ranktest;

namespace {

/// Well within what issue and README promise: 30 s.
constexpr double mostSeconds = 25;

size_t count(const std::string &text, const std::string &part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; ++at)
    ++found;
  return found;
}

TEST(Communicator, Operations) {
  for (int ranks : {2, 3, 7}) {
    Mpirun run(ranks, {QWEN_RANK_PROBE, "collectives"});
    EXPECT_TRUE(run.finish()) << run.output();
    EXPECT_EQ(count(run.output(), ": good"), size_t(ranks)) << run.output();
  }
}

/// The last or first of three ranks goes wrong in step 7; the other two each
/// say so, or all where it can do so, too.
void expectLoss(const std::string &mode, const std::string &line,
                size_t tellers = 2) {
  SCOPED_TRACE(mode);
  Mpirun run(3, {QWEN_RANK_PROBE, mode, "3"});
  EXPECT_FALSE(run.finish());
  EXPECT_LT(run.waited().count(), mostSeconds);
  EXPECT_EQ(count(run.output(), "survivor: " + line), tellers) << run.output();
}

TEST(LostRank, Dies) {
  expectLoss("die", "rank 2 was lost in step 7: its process ended");
  expectLoss("first-die", "rank 0 was lost in step 7: its process ended");
}

TEST(LostRank, IsStopped) {
  expectLoss("first-stop", "rank 0 was lost in step 7: no sign of life");
  Mpirun run(3, {QWEN_RANK_PROBE, "stop", "3"});
  EXPECT_FALSE(run.finish());
  // The stopped one may say it of itself when the launcher wakes it.
  EXPECT_GE(count(run.output(), "rank 2 was lost in step 7: no sign of life"),
            2u)
      << run.output();
}

TEST(LostRank, Hangs) {
  Mpirun run(3, {QWEN_RANK_PROBE, "hang", "3"});
  EXPECT_FALSE(run.finish());
  EXPECT_LT(run.waited().count(), mostSeconds);
  EXPECT_GE(count(run.output(), "rank 2 was lost in step 7: it hangs"), 2u)
      << run.output();
}

TEST(LostRank, HasAGpuThatHangs) {
  expectLoss("gpu", "rank 2 was lost in step 7: its GPU hangs", 3);
  expectLoss("first-gpu", "rank 0 was lost in step 7: its GPU hangs", 3);
  // All are where the others are.
  expectLoss("gpus", "rank 0 was lost in step 7: all ranks wait", 3);
}

TEST(LostRank, FailsByAnError) {
  expectLoss("fail", "rank 2 was lost in step 7: spoilt milk");
  expectLoss("first-fail", "rank 0 was lost in step 7: spoilt milk");
}

/// A process that ended but that nobody has asked about does not count.
bool isRunning(pid_t process) {
  std::string status = readFile("/proc/" + std::to_string(process) + "/status");
  return !status.empty() && status.find("\nState:\tZ") == status.npos;
}

class TrainingOnRanks : public testing::Test {
protected:
  void SetUp() override {
    TokenFile file;
    file.addLengths({40, 50, 60, 45, 55, 33, 62, 48, 51});
    file.write(folder / "data");
  }
  std::vector<std::string> command(int planRanks,
                                   std::vector<std::string> more = {},
                                   const std::string &out = "out") {
    more.insert(more.end(), {"--init", "random"});
    return trainCommand(trainSpec(e2e::tinyConfigs().front(), planRanks),
                        folder / "data", folder / out, more);
  }
  TemporaryFolder folder;
};

TEST_F(TrainingOnRanks, WrongNumberOfRanks) {
  for (auto [planned, started] : {std::pair(4, 2), {1, 2}, {4, 1}}) {
    Mpirun run(started, command(planned));
    EXPECT_FALSE(run.finish());
    std::string line = fmt::format("the plan is for {} rank{}, {} w", planned,
                                   planned == 1 ? "" : "s", started);
    EXPECT_GE(count(run.output(), line), 1u) << run.output();
    EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  }
}

TEST_F(TrainingOnRanks, KilledRankEndsAll) {
  Mpirun run(3, command(3, {"--steps", "1000000"}));
  ASSERT_TRUE(run.waitFor("step 3/")) << run.output();
  pid_t victim = run.processOf(1);
  ASSERT_GT(victim, 0);
  std::vector<pid_t> others = {run.processOf(0), run.processOf(2)};
  ASSERT_EQ(kill(victim, SIGKILL), 0);
  EXPECT_FALSE(run.finish());
  EXPECT_LT(run.waited().count(), mostSeconds);
  EXPECT_EQ(count(run.output(), "qwenrun: error: rank 1 was lost in step "), 2u)
      << run.output();
  for (pid_t other : others)
    EXPECT_FALSE(isRunning(other)) << "an orphan";
}

TEST_F(TrainingOnRanks, HangingGpuEndsAll) {
  if (!e2e::testOptions().isCuda())
    GTEST_SKIP() << "without a GPU; LostRank.HasAGpuThatHangs is the watch's";
  ASSERT_OK_AND_TAKE(
      path, e2e::compilePlanFile(trainSpec(e2e::tinyConfigs().front(), 3)));
  Mpirun run(3, {QWEN_RANK_TRAINER, path, folder / "data", "1000", "3",
                 folder / "out", "hang"});
  EXPECT_FALSE(run.finish());
  EXPECT_LT(run.waited().count(), mostSeconds);
  EXPECT_GE(count(run.output(), "rank 1 was lost in step 3: its GPU hangs"), 1u)
      << run.output();
}

TEST_F(TrainingOnRanks, SignalToOneRankStopsAll) {
  for (int signal : {SIGTERM, SIGUSR1}) {
    std::filesystem::remove_all(folder / "out");
    Mpirun run(3, command(3, {"--steps", "1000000"}));
    ASSERT_TRUE(run.waitFor("step 3/")) << run.output();
    pid_t one = run.processOf(2);
    ASSERT_GT(one, 0);
    ASSERT_EQ(kill(one, signal), 0);
    EXPECT_TRUE(run.finish()) << run.output();
    EXPECT_EQ(count(run.output(), "stopped after"), 1u) << run.output();
  }
}

/// Metrics of the steps of a run, by name.
std::vector<Json> metricsOf(const std::string &out) {
  std::vector<Json> rows;
  std::string text = readFile(out + "/metrics.jsonl");
  for (size_t at = 0, end; (end = text.find('\n', at)) != text.npos;
       at = end + 1) {
    auto row = parseJsonObject(text.substr(at, end - at), "metrics");
    EXPECT_TRUE(row.ok()) << row.status().message();
    if (row.ok())
      rows.push_back(std::move(row).value());
  }
  return rows;
}

TEST_F(TrainingOnRanks, MetricsAreThoseOfOneRank) {
  if (e2e::testOptions().isCuda())
    GTEST_SKIP() << "float32 on CPUs; RanksCudaTest is for bf16";
  std::vector<std::vector<Json>> metrics;
  for (int ranks : {1, 3}) {
    std::string out = "out-" + std::to_string(ranks);
    // A smooth update: see RanksTest.
    Mpirun run(ranks, command(ranks,
                              {"--epochs", "1", "--packs-per-step", "3",
                               "--eval", folder / "data", "--eps", "1", "--lr",
                               "0.05", "--clip", "0", "--weight-decay", "0"},
                              out));
    ASSERT_TRUE(run.finish()) << run.output();
    metrics.push_back(metricsOf(folder / out));
  }
  const std::vector<Json> &one = metrics[0], &three = metrics[1];
  ASSERT_EQ(one.size(), 4u); // three steps, one evaluation
  ASSERT_EQ(three.size(), one.size());
  // RanksTest derives it: three steps of three packs.
  double bound = 9 * 12 * double(std::numeric_limits<float>::epsilon());
  for (size_t i = 0; i < one.size(); ++i)
    for (const auto &[name, value] : one[i].items()) {
      SCOPED_TRACE(name);
      const Json &other = three[i][name];
      if (name == "loss" || name == "grad_norm" || name == "perplexity") {
        // The perplexity's relative error is the loss's absolute one.
        EXPECT_NEAR(double(other), double(value),
                    (name == "perplexity" ? 10 : 1) * bound * double(value));
      } else if (name != "seconds" && name != "tokens_per_second") {
        EXPECT_EQ(other, value);
      }
    }
}

} // namespace

int main(int argc, char **argv) {
  return e2e::runTests(argc, argv, [] { return trainSpecs({1, 3, 4}); });
}
