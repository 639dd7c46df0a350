//===- TrainingStepsTest.cpp - Steps of the trainer on a real plan --------===//
//
// Micro-batches and steps without a supervised token, and runs that stop and go
// on, with a compiled model behind the trainer.
//
//===----------------------------------------------------------------------===//

#include "Model.h"

#include "runtime/trainer/PlanEngine.h"
#include "runtime/trainer/TrainingRun.h"
#include "test/unit/runtime/TokenFile.h"

using namespace qwen;
using namespace qwen::e2e;

namespace {

/// "f32", "bf16", or "narrow": bf16 whose state is bf16 too, rounded
/// stochastically.
PlanSpec smallSpec(const std::string &kind) {
  PlanSpec spec;
  spec.config = "tiny-untied-1to3";
  spec.dtype = kind == "f32" ? "f32" : "bf16";
  if (kind == "narrow") {
    spec.masters = "none";
    spec.momentType = "bf16";
  }
  spec.tokens = 96;
  spec.maxDocuments = 4;
  return spec;
}

class TrainingStepsTest : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    ASSERT_OK_AND_TAKE(opened, Checkpoint::open(sourcePath(
                                   "test/golden/tiny-untied-1to3/checkpoint")));
    source.emplace(std::move(opened));
  }

  /// A fresh engine with the weights of the golden checkpoint.
  StatusOr<PlanEngine> makeEngine() {
    PlanSpec spec = smallSpec(GetParam());
    QWEN_ASSIGN_OR_RETURN(Plan plan, compilePlan(spec));
    ExecutorOptions options;
    options.hugePages = false;
    options.poison = true;
    QWEN_ASSIGN_OR_RETURN(PlanEngine engine, PlanEngine::create(plan, options));
    auto report = loadParameters(*source, engine.parameters(), {});
    if (!report.ok())
      return report.status();
    return engine;
  }

  /// A data set of documents of these lengths; those of a negative length have
  /// no supervised token.
  StatusOr<TokenDataset> makeData(const std::vector<int> &lengths) {
    TokenFile file;
    Generator generator(5);
    for (int length : lengths) {
      std::vector<int32_t> document;
      for (int i = 0; i < std::abs(length); ++i)
        document.push_back(draw(generator, 264));
      file.add(document, length > 0);
    }
    std::string path = folder / fmt::format("data-{}", files++);
    file.write(path);
    return TokenDataset::open(path, 264);
  }

  TemporaryFolder folder;
  /// Engines may point into it.
  std::optional<Checkpoint> source;
  int files = 0;
};

TrainerOptions optionsFor(int64_t steps, int64_t accumulation) {
  TrainerOptions options;
  options.steps = steps;
  options.accumulation = accumulation;
  options.seed = 11;
  options.schedule.peak = 1e-3;
  return options;
}

} // namespace

/// Everything that outlives a step.
static Tensors stateOf(PlanEngine &engine) {
  Tensors state;
  auto add = [&](const std::string &name, const Buffer &buffer) {
    if (buffer.data)
      state[name] = copyOf(buffer);
  };
  auto parameters = engine.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ParameterView &parameter = parameters[i];
    add("parameter " + parameter.name, parameter.value);
    add("master " + parameter.name, parameter.master);
    add("moment1 " + parameter.name, parameter.moment1);
    add("moment2 " + parameter.name, parameter.moment2);
    add("gradient " + parameter.name, engine.roles()[i].gradient);
  }
  return state;
}

TEST_P(TrainingStepsTest, UnsupervisedMicroBatchIsAddedAsNothing) {
  ASSERT_OK_AND_TAKE(model, goldenModel(smallSpec(GetParam())));
  Generator generator(3);
  std::vector<TestDocument> some = {
      randomDocument(generator, 66, model.vocabulary()),
      randomDocument(generator, 5, model.vocabulary())};
  std::vector<TestDocument> none = {
      randomDocument(generator, 64, model.vocabulary(), 0),
      randomDocument(generator, 3, model.vocabulary(), 0)};
  Batch supervised = makePack(some, model.limits());
  Batch unsupervised = makePack(none, model.limits());

  model.microStep(supervised, 0.01f);
  Tensors alone = model.gradients();
  std::vector<float> nll = model.microStep(unsupervised, 0.01f);
  EXPECT_TRUE(sameBits(nll, std::vector<float>(nll.size(), 0.0f)));
  EXPECT_TRUE(sameBits(alone, model.gradients())) << "after";
  model.beginStep();
  model.microStep(unsupervised, 0.01f);
  model.microStep(supervised, 0.01f);
  EXPECT_TRUE(sameBits(alone, model.gradients())) << "before";
  EXPECT_TRUE(allFinite(alone));
}

TEST_P(TrainingStepsTest, MicroBatchWithoutSupervisionChangesNoUpdate) {
  // Each document fills a micro-batch; of those of one step, one is empty.
  ASSERT_OK_AND_TAKE(both, makeData({90, -91}));
  ASSERT_OK_AND_TAKE(one, makeData({90}));
  ASSERT_OK_AND_TAKE(engineOfBoth, makeEngine());
  ASSERT_OK_AND_TAKE(engineOfOne, makeEngine());
  ASSERT_OK_AND_TAKE(trainerOfBoth,
                     Trainer::create(engineOfBoth, both, optionsFor(3, 2)));
  ASSERT_OK_AND_TAKE(trainerOfOne,
                     Trainer::create(engineOfOne, one, optionsFor(3, 1)));
  for (int step = 0; step < 3; ++step) {
    StepResult resultOfBoth, resultOfOne;
    ASSERT_OK(trainerOfBoth.step(resultOfBoth));
    ASSERT_OK(trainerOfOne.step(resultOfOne));
    EXPECT_EQ(resultOfBoth.kind, StepResult::Kind::Updated);
    EXPECT_EQ(resultOfBoth.packs, 2);
    EXPECT_EQ(resultOfBoth.supervised, 89);
    EXPECT_EQ(resultOfBoth.loss, resultOfOne.loss);
    EXPECT_EQ(resultOfBoth.gradNorm, resultOfOne.gradNorm);
    EXPECT_TRUE(sameBits(stateOf(engineOfBoth), stateOf(engineOfOne)));
  }
  EXPECT_EQ(trainerOfBoth.state().emptyMicroBatches, 3);
  EXPECT_EQ(trainerOfOne.state().emptyMicroBatches, 0);
}

TEST_P(TrainingStepsTest, StepWithoutSupervisionChangesNothing) {
  ASSERT_OK_AND_TAKE(some, makeData({60, 30, 90}));
  ASSERT_OK_AND_TAKE(none, makeData({-60, -30, -90}));
  ASSERT_OK_AND_TAKE(engine, makeEngine());
  // Moments that are not zero would move weights even without a gradient.
  ASSERT_OK_AND_TAKE(first, Trainer::create(engine, some, optionsFor(2, 1)));
  StepResult result;
  while (!first.finished())
    ASSERT_OK(first.step(result));
  Tensors before = stateOf(engine);
  EXPECT_TRUE(allFinite(before));

  ASSERT_OK_AND_TAKE(second, Trainer::create(engine, none, optionsFor(2, 2)));
  while (!second.finished()) {
    ASSERT_OK(second.step(result));
    EXPECT_EQ(result.kind, StepResult::Kind::Empty);
    EXPECT_EQ(result.supervised, 0);
  }
  EXPECT_TRUE(sameBits(before, stateOf(engine)));
  EXPECT_EQ(second.state().emptySteps, 2);
  EXPECT_EQ(second.state().updates, 0);
}

TEST_P(TrainingStepsTest, RunThatStopsAndGoesOnKeepsEveryBit) {
  ASSERT_OK_AND_TAKE(data,
                     makeData({40, 3, 65, 96, -20, 17, 1, 64, 5, 33, 80}));
  TrainerOptions options = optionsFor(6, 2);
  ASSERT_OK_AND_TAKE(whole, makeEngine());
  ASSERT_OK_AND_TAKE(wholeTrainer, Trainer::create(whole, data, options));
  std::vector<double> losses;
  StepResult result;
  while (!wholeTrainer.finished()) {
    ASSERT_OK(wholeTrainer.step(result));
    losses.push_back(result.loss);
  }

  ASSERT_OK_AND_TAKE(directory, RunDirectory::open(folder / "run"));
  RunFiles files;
  files.directory = &directory;
  files.source = &*source;
  std::string saved;
  for (size_t begin = 0; begin < losses.size(); begin += 2) {
    SCOPED_TRACE(fmt::format("from step {}", begin));
    ASSERT_OK_AND_TAKE(engine, makeEngine());
    ASSERT_OK_AND_TAKE(trainer, Trainer::create(engine, data, options));
    std::optional<ResumedCheckpoint> resumed;
    if (!saved.empty()) {
      ASSERT_OK_AND_TAKE(loaded, loadForResume(saved, engine, {}));
      resumed.emplace(std::move(loaded));
      ASSERT_OK_AND_TAKE(state, readTrainerState(saved));
      ASSERT_OK(trainer.restore(state));
    }
    for (size_t step = begin; step < begin + 2; ++step) {
      ASSERT_OK(trainer.step(result));
      EXPECT_EQ(result.loss, losses[step]) << "step " << step;
    }
    ASSERT_OK_AND_TAKE(path, saveCheckpoint(files, engine, trainer.state()));
    saved = path;
    if (trainer.finished()) {
      EXPECT_TRUE(sameBits(stateOf(whole), stateOf(engine)));
    }
  }
  EXPECT_TRUE(wholeTrainer.finished());
}

INSTANTIATE_TEST_SUITE_P(Types, TrainingStepsTest,
                         testing::Values("f32", "bf16", "narrow"),
                         [](const auto &info) { return info.param; });
