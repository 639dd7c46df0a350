//===- NonFiniteRanksTest.cpp - Runs that end at a NaN or an infinity -----===//
//
// The program itself, from weights that are finite but overflow.
//
//===----------------------------------------------------------------------===//

#include "Mpirun.h"
#include "TrainCommand.h"

#include "qwen/Support/BFloat16.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/RunDirectory.h"
#include "runtime/trainer/Initialize.h"
#include "runtime/trainer/PlanEngine.h"
#include "runtime/trainer/Trainer.h"
#include "test/unit/runtime/TokenFile.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <regex>

using namespace qwen;
using namespace qwen::ranktest;
namespace fs = std::filesystem;

namespace {

/// In one document alone.
constexpr int32_t rareToken = 200;

/// Its head is not tied.
std::string config() { return e2e::tinyConfigs().back(); }

/// Gives elements of a tensor of `bytes` bytes at `data` to a function.
void editFloats(char *data, size_t bytes, FileDType type,
                const std::function<void(std::span<float>)> &edit) {
  if (type == FileDType::F32) {
    std::vector<float> values(bytes / sizeof(float));
    std::memcpy(values.data(), data, bytes);
    edit(values);
    std::memcpy(data, values.data(), bytes);
    return;
  }
  ASSERT_EQ(type, FileDType::BF16);
  std::vector<BFloat16> stored(bytes / sizeof(BFloat16));
  std::memcpy(stored.data(), data, bytes);
  std::vector<float> values(stored.size());
  std::ranges::transform(stored, values.begin(), toFloat);
  edit(values);
  std::ranges::transform(values, stored.begin(), toBFloat16);
  std::memcpy(data, stored.data(), bytes);
}

class NonFiniteRanks : public testing::Test {
protected:
  void SetUp() override {
    // A pack each, all three in a step.
    TokenFile file;
    file.addLengths({60, 55});
    std::vector<int32_t> document(58, 7);
    document[20] = rareToken;
    file.add(document);
    file.write(folder / "data");
    Mpirun run(1, command(1, "start", {"--init", "random", "--steps", "1"}));
    ASSERT_TRUE(run.finish()) << run.output();
    weights = folder / "start/checkpoint-1";
  }

  std::vector<std::string> command(int ranks, const std::string &out,
                                   std::vector<std::string> more) {
    more.insert(more.end(), {"--packs-per-step", "3"});
    return trainCommand(trainSpec(config(), ranks), folder / "data",
                        folder / out, more);
  }

  /// Changes a tensor of the weights.
  void change(const std::string &suffix,
              const std::function<void(std::span<float>)> &edit) {
    std::string path = weights + "/model.safetensors";
    std::string text = readFile(path);
    {
      ASSERT_OK_AND_TAKE(file, SafetensorsFile::open(path));
      auto tensor = std::ranges::find_if(file.tensors(), [&](auto &each) {
        return each.name.ends_with(suffix);
      });
      ASSERT_NE(tensor, file.tensors().end()) << suffix;
      // The data of all tensors is the end of the file, in their order.
      const auto &last = file.tensors().back().data;
      auto behind = (last.data() + last.size()) - tensor->data.data();
      editFloats(text.data() + text.size() - size_t(behind),
                 tensor->data.size(), tensor->dtype, edit);
    }
    writeFile(path, text);
  }

  /// The line with which the run on so many ranks ends, after three steps.
  void runUntilItStops(int ranks, std::string &line) {
    std::string out = fmt::format("on-{}", ranks);
    Mpirun run(ranks, command(ranks, out,
                              {"--weights", weights, "--steps", "9",
                               "--save-every", "1"}));
    EXPECT_FALSE(run.finish());
    const std::string &said = run.output();
    for (const char *text : {"the update was skipped (1 so far, 1 in a row)",
                             "the update was skipped (3 so far, 3 in a row)"})
      EXPECT_NE(said.find(text), said.npos) << said;
    std::smatch match;
    ASSERT_TRUE(std::regex_search(
        said, match,
        std::regex("3 steps in a row were not finite, stopping at step 3; "
                   "first NaN or infinity: ([^\n]*)")))
        << said;
    line = match[1];
    // What was saved is what the run started from.
    auto saved = listCheckpoints(folder / out);
    ASSERT_EQ(saved.size(), 2u);
    EXPECT_EQ(saved[0].step, 2);
    ASSERT_OK(verifyCheckpoint(saved[0].path));
    EXPECT_TRUE(readFile(saved[0].path + "/model.safetensors") ==
                readFile(weights + "/model.safetensors"));
  }

  TemporaryFolder folder;
  std::string weights; ///< a checkpoint
};

TEST_F(NonFiniteRanks, ALayerThatOverflowsIsNamed) {
  change("layers.1.post_attention_layernorm.weight",
         [](std::span<float> weight) { std::ranges::fill(weight, 3e38f); });
  for (int ranks : {1, 3}) {
    std::string line;
    runUntilItStops(ranks, line);
    std::string rank = ranks == 1 ? "" : "rank 0, ";
    std::string micro = ranks == 1 ? "1 of 3" : "1 of 1";
    EXPECT_TRUE(std::regex_search(
        line,
        std::regex("^" + rank + "micro-batch " + micro +
                   " \\(pack 0 of epoch 2\\), launch [0-9]+ of "
                   "'first_micro_step' \\(.* of .*layers\\.1 .*\\): "
                   "output '.*' \\(b?f(32|16)\\[64, [0-9]+\\]\\) has [0-9]+ "
                   "of [0-9]+ elements that are not finite, the first at "
                   "\\[0, [0-9]+\\]: -?inf$")))
        << line;
  }
}

TEST_F(NonFiniteRanks, OneDocumentIsFoundOnWhateverRankItIs) {
  // An element of the last norm that overflows where it is nearly all of the
  // hidden vector, as the rare token makes it.
  constexpr size_t element = 77;
  size_t hidden = 0;
  // Not one of "linear_attn.norm.weight".
  change("model.norm.weight", [&](std::span<float> weight) {
    hidden = weight.size();
    weight[element] =
        std::numeric_limits<float>::max() / (0.75f * std::sqrt(float(hidden)));
  });
  ASSERT_GT(hidden, element);
  change("embed_tokens.weight", [&](std::span<float> weight) {
    weight[rareToken * hidden + element] = 1e4f;
  });
  // Else the other documents' gradients would overflow where they meet that
  // weight.
  change("lm_head.weight", [&](std::span<float> weight) {
    for (size_t i = element; i < weight.size(); i += hidden)
      weight[i] = 1e-12f;
  });
  std::vector<std::string> packs;
  for (int ranks : {1, 3}) {
    std::string line;
    runUntilItStops(ranks, line);
    std::smatch match;
    ASSERT_TRUE(std::regex_search(
        line, match,
        std::regex("^(rank ([0-2]), )?micro-batch ([1-3]) of [13] \\(pack "
                   "([0-2]) of epoch 2\\), launch .*the first at "
                   "\\[20, 77\\]: inf$")))
        << line;
    packs.push_back(match[4]);
    if (ranks == 1)
      EXPECT_EQ(std::stoi(match[3]), std::stoi(match[4]) + 1) << line;
    else
      EXPECT_EQ(match[2], match[4]) << line;
  }
  EXPECT_EQ(packs[0], packs[1]);
}

/// On one rank, in every type that the target computes in.
std::vector<e2e::PlanSpec> singleSpecs() {
  std::vector<e2e::PlanSpec> specs(2, trainSpec(config(), 1));
  specs[1].dtype = "bf16";
  return specs;
}

/// What a launch does not write of its outputs, such as the places of padding,
/// is no finding: all of it is NaN before the run.
TEST(LaunchSearchTest, UnwrittenPartsAreNoFindings) {
  TemporaryFolder folder;
  TokenFile file;
  file.addLengths({37, 12, 1, 9, 61, 3});
  file.write(folder / "data");
  for (const e2e::PlanSpec &spec : singleSpecs()) {
    ASSERT_OK_AND_TAKE(path, e2e::compilePlanFile(spec));
    ASSERT_OK_AND_TAKE(plan, Plan::load(path));
    ExecutorOptions executor;
    executor.poison = true;
    ASSERT_OK_AND_TAKE(engine, PlanEngine::create(plan, executor));
    ASSERT_OK(initializeParameters(engine, 1));
    ASSERT_OK_AND_TAKE(data,
                       TokenDataset::open(folder / "data", engine.vocabSize()));
    TrainerOptions options;
    options.steps = 1;
    options.packsPerStep = 9;
    ASSERT_OK_AND_TAKE(trainer, Trainer::create(engine, data, options));
    StepResult result;
    ASSERT_OK(trainer.step(result));
    ASSERT_EQ(result.kind, StepResult::Kind::Updated);
    ASSERT_GE(result.rounds, 2);
    ASSERT_OK_AND_TAKE(found, trainer.explainNonFinite());
    EXPECT_EQ(found, "nothing found when the step was run again") << spec.dtype;
  }
}

} // namespace

int main(int argc, char **argv) {
  return e2e::runTests(argc, argv, [] {
    std::vector<e2e::PlanSpec> specs = singleSpecs();
    for (int ranks : {1, 3})
      specs.push_back(trainSpec(config(), ranks));
    return specs;
  });
}
