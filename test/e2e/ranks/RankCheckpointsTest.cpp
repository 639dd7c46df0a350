//===- RankCheckpointsTest.cpp - Saved on some ranks, resumed on others ---===//
//
// The program itself, from random weights. AdamW's epsilon is 1 and the rate is
// constant, so that an update is a smooth function of the gradient.
//
//===----------------------------------------------------------------------===//

#include "Mpirun.h"
#include "TrainCommand.h"

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/RunDirectory.h"
#include "test/unit/runtime/TokenFile.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <limits>
#include <thread>

using namespace qwen;
using namespace qwen::ranktest;
namespace fs = std::filesystem;

namespace {

constexpr int64_t packs = 4; ///< of a step
constexpr double learningRate = 0.05, beta1 = 0.9;

std::span<const float> floats(const Checkpoint &from, const std::string &name) {
  const StoredTensor *tensor = from.find(name);
  if (!tensor || tensor->dtype != FileDType::F32)
    return {};
  return {reinterpret_cast<const float *>(tensor->data.data()),
          tensor->data.size() / sizeof(float)};
}

/// Weights and state of a checkpoint.
struct Saved {
  std::optional<Checkpoint> weights, optimizer;

  /// A parameter before it is rounded to what the model computes in.
  std::span<const float> exact(const std::string &name) const {
    auto master = floats(*optimizer, "master." + name);
    return master.empty() ? floats(*weights, name) : master;
  }
};

void openSaved(const std::string &path, Saved &saved) {
  ASSERT_OK_AND_TAKE(weights, Checkpoint::open(path));
  ASSERT_OK_AND_TAKE(optimizer, Checkpoint::open(path, "optimizer"));
  saved.weights.emplace(std::move(weights));
  saved.optimizer.emplace(std::move(optimizer));
}

/// Largest gradient of a tensor in the step between two checkpoints, from its
/// first moments: m' = beta1 m + (1 - beta1) g.
double largestGradient(const Saved &before, const Saved &after,
                       const std::string &name) {
  auto old = floats(*before.optimizer, "moment1." + name);
  auto now = floats(*after.optimizer, "moment1." + name);
  double most = 0;
  for (size_t i = 0; i < old.size(); ++i)
    most = std::max(most, std::abs(now[i] - beta1 * old[i]) / (1 - beta1));
  return most;
}

/// One step from the same state on other ranks. A gradient element is a sum of
/// the step's packs, each at most `packs` times the largest gradient, in
/// another order: it differs by at most packs^2 eps times that one. With an
/// epsilon of 1 the update differs by less than the rate times this: the slope
/// of m / (sqrt(v) + 1) in the gradient is below 1. The other terms are the
/// roundings of the element and of the update's own arithmetic.
void expectSameStep(const Saved &before, const Saved &want, const Saved &got) {
  double eps = std::numeric_limits<float>::epsilon();
  int compared = 0;
  for (const Checkpoint::Shard &shard : want.weights->shards())
    for (const StoredTensor &tensor : shard.file.tensors()) {
      auto a = got.exact(tensor.name), b = want.exact(tensor.name),
           start = before.exact(tensor.name);
      ASSERT_FALSE(b.empty()) << tensor.name;
      ASSERT_EQ(a.size(), b.size()) << tensor.name;
      ASSERT_EQ(start.size(), b.size()) << tensor.name;
      double gradient = largestGradient(before, want, tensor.name);
      EXPECT_GT(gradient, 0) << tensor.name;
      double bound = learningRate * double(packs * packs) * eps * gradient;
      for (size_t i = 0; i < b.size(); ++i)
        ASSERT_LE(std::abs(double(a[i]) - b[i]),
                  bound + eps * std::abs(b[i]) +
                      8 * eps * std::abs(double(b[i]) - start[i]))
            << tensor.name << " at " << i;
      ++compared;
    }
  EXPECT_GT(compared, 10);
}

/// Every weight and every element of the state has the same bits.
void expectSameFiles(const std::string &got, const std::string &want) {
  int compared = 0;
  for (const auto &entry : fs::directory_iterator(want)) {
    std::string name = entry.path().filename();
    if (!name.ends_with(".safetensors"))
      continue;
    EXPECT_TRUE(readFile(got + "/" + name) == readFile(want + "/" + name))
        << name;
    ++compared;
  }
  EXPECT_GE(compared, 2);
}

e2e::PlanSpec specOf(const std::string &config, int ranks,
                     const std::string &masters = "f32") {
  e2e::PlanSpec spec = trainSpec(config, ranks);
  spec.masters = masters;
  if (masters == "none")
    spec.momentType = "bf16";
  return spec;
}

/// With masters, and with the random roundings of weights and moments without
/// them; in bf16.
std::vector<e2e::PlanSpec> bf16Specs(const std::string &config, int ranks) {
  std::vector<e2e::PlanSpec> specs = {specOf(config, ranks),
                                      specOf(config, ranks, "none")};
  for (e2e::PlanSpec &spec : specs)
    spec.dtype = "bf16";
  return specs;
}

class RankCheckpoints : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    TokenFile file;
    file.addLengths({40, 50, 60, 45, 55, 33, 62, 48, 51, 39, 44, 58, 61});
    file.write(folder / "data");
  }
  std::vector<std::string> command(const e2e::PlanSpec &spec,
                                   const std::string &out, int steps,
                                   std::vector<std::string> more) {
    more.insert(more.end(),
                {"--init", "random", "--steps", std::to_string(steps),
                 "--schedule", "constant", "--lr", std::to_string(learningRate),
                 "--beta1", std::to_string(beta1), "--eps", "1", "--clip", "0",
                 "--weight-decay", "0", "--packs-per-step",
                 std::to_string(packs)});
    return trainCommand(spec, folder / "data", folder / out, more);
  }
  void train(const e2e::PlanSpec &spec, const std::string &out, int steps,
             const std::vector<std::string> &more) {
    Mpirun run(int(spec.worldSize), command(spec, out, steps, more));
    ASSERT_TRUE(run.finish()) << run.output();
    bool resumes =
        std::find(more.begin(), more.end(), "--resume") != more.end();
    EXPECT_EQ(run.output().find("resuming from") != std::string::npos, resumes)
        << run.output();
  }
  std::string checkpoint(const std::string &out, int64_t step) {
    return folder / fmt::format("{}/checkpoint-{}", out, step);
  }
  /// A run's folder as it was after a step.
  void copyUpTo(const std::string &from, const std::string &to, int step) {
    fs::create_directories(folder / to);
    fs::copy(checkpoint(from, step), checkpoint(to, step),
             fs::copy_options::recursive);
  }
  void killInSave(const std::string &out, const std::string &file);

  TemporaryFolder folder;
};

TEST_P(RankCheckpoints, SavedOnFourResumedOnAny) {
  train(specOf(GetParam(), 4), "whole", 3,
        {"--save-every", "1", "--keep", "9"});
  Saved before, want;
  openSaved(checkpoint("whole", 2), before);
  openSaved(checkpoint("whole", 3), want);
  if (HasFatalFailure())
    return;
  for (int ranks : {1, 2, 3, 4}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    std::string out = fmt::format("on-{}", ranks);
    copyUpTo("whole", out, 2);
    train(specOf(GetParam(), ranks), out, 3, {"--resume"});
    if (HasFatalFailure())
      return;
    Saved got;
    openSaved(checkpoint(out, 3), got);
    expectSameStep(before, want, got);
    if (ranks == 4)
      expectSameFiles(checkpoint(out, 3), checkpoint("whole", 3));
  }
}

/// In the middle of an epoch and at its end.
TEST_P(RankCheckpoints, ResumedOnTheSameRanksHasTheSameBits) {
  for (const e2e::PlanSpec &spec : bf16Specs(GetParam(), 3)) {
    std::string name = "whole-" + spec.masters;
    train(spec, name, 6, {"--save-every", "2", "--keep", "9"});
    for (int step : {2, 4}) {
      std::string out = fmt::format("from-{}-{}", step, spec.masters);
      copyUpTo(name, out, step);
      train(spec, out, 6, {"--resume"});
      if (HasFatalFailure())
        return;
      expectSameFiles(checkpoint(out, 6), checkpoint(name, 6));
    }
  }
}

/// Kills all ranks and the launcher while a save that is not the first has
/// `file` in its folder.
void RankCheckpoints::killInSave(const std::string &out,
                                 const std::string &file) {
  Mpirun run(
      3, command(specOf(GetParam(), 3), out, 1000000, {"--save-every", "1"}));
  ASSERT_TRUE(run.waitFor("saved ")) << run.output();
  std::vector<pid_t> processes = {run.launcher()};
  for (int rank = 0; rank < 3; ++rank)
    processes.push_back(run.processOf(rank));
  for (pid_t process : processes)
    ASSERT_GT(process, 0);
  auto isSaving = [&] {
    std::error_code error;
    for (fs::directory_iterator it(folder / out, error), end;
         !error && it != end; it.increment(error))
      if (it->path().filename().string().starts_with(".tmp-checkpoint-") &&
          fs::exists(it->path() / file, error))
        return true;
    return false;
  };
  auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!isSaving())
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  for (pid_t process : processes)
    kill(process, SIGKILL);
  EXPECT_FALSE(run.finish());
}

TEST_P(RankCheckpoints, KilledSavesHarmNoEarlierOne) {
  for (const char *file : {".", "model.safetensors", "optimizer.safetensors"}) {
    SCOPED_TRACE(file);
    std::string out = std::string("killed-at-") + file;
    killInSave(out, file);
    if (HasFatalFailure())
      return;
    std::vector<std::string> warnings;
    ASSERT_OK_AND_TAKE(newest, findNewestCheckpoint(folder / out, warnings));
    EXPECT_TRUE(warnings.empty()) << warnings.front();
    int next = int(newest.step) + 1;
    e2e::PlanSpec spec = specOf(GetParam(), 3);
    train(spec, out, next, {"--resume"});
    train(spec, out + "-whole", next, {});
    if (HasFatalFailure())
      return;
    expectSameFiles(checkpoint(out, next), checkpoint(out + "-whole", next));
  }
}

INSTANTIATE_TEST_SUITE_P(Configs, RankCheckpoints,
                         testing::ValuesIn(e2e::tinyConfigs()),
                         [](const auto &info) {
                           return e2e::testName(info.param);
                         });

} // namespace

int main(int argc, char **argv) {
  return e2e::runTests(argc, argv, [] {
    std::vector<e2e::PlanSpec> specs = trainSpecs({1, 2, 3, 4});
    for (const std::string &config : e2e::tinyConfigs())
      for (const e2e::PlanSpec &spec : bf16Specs(config, 3))
        specs.push_back(spec);
    return specs;
  });
}
