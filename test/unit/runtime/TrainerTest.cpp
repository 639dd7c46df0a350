//===- TrainerTest.cpp - Steps: accumulation, gaps, bad numbers -----------===//

#include "runtime/trainer/Trainer.h"
#include "BigramEngine.h"
#include "TokenFile.h"
#include "runtime/trainer/Initialize.h"

#include <limits>
#include <random>

using namespace qwen;

static constexpr int64_t vocab = 16;

static TokenDataset openData(const TemporaryFolder &folder,
                             const TokenFile &file) {
  file.write(folder / "t.safetensors");
  auto data = TokenDataset::open(folder / "t.safetensors", vocab);
  EXPECT_TRUE(data.ok()) << data.status().message();
  return std::move(data).value();
}

static TokenFile randomDocuments(const std::vector<int> &lengths) {
  std::mt19937 random(3);
  TokenFile file;
  for (int length : lengths) {
    std::vector<int32_t> document;
    for (int i = 0; i < length; ++i)
      document.push_back(int32_t(random() % vocab));
    file.add(document);
  }
  return file;
}

static Trainer makeTrainer(Engine &engine, const TokenDataset &data,
                           const TrainerOptions &options) {
  auto trainer = Trainer::create(engine, data, options);
  EXPECT_TRUE(trainer.ok()) << trainer.status().message();
  return std::move(trainer).value();
}

static StepResult step(Trainer &trainer) {
  StepResult result;
  Status status = trainer.step(result);
  EXPECT_TRUE(status.ok()) << status.message();
  return result;
}

TEST(TrainerTest, LossIsTheTokenMeanHoweverTheDocumentsAreSplit) {
  TemporaryFolder folder;
  // Very unequal documents: a mean of means would be far off.
  TokenDataset data =
      openData(folder, randomDocuments({2, 2, 2, 2, 2, 2, 2, 40}));
  struct Split {
    PackLimits limits;
    int64_t accumulation;
  };
  std::vector<StepResult> results;
  std::vector<std::vector<float>> tables;
  for (Split split :
       {Split{{64, 8}, 1}, Split{{40, 8}, 2}, Split{{40, 1}, 8}}) {
    BigramEngine engine(split.limits, vocab);
    ASSERT_OK(initializeParameters(engine, 1));
    TrainerOptions options;
    options.epochs = 1;
    options.accumulation = split.accumulation;
    Trainer trainer = makeTrainer(engine, data, options);
    ASSERT_EQ(trainer.totalSteps(), 1);
    results.push_back(step(trainer));
    EXPECT_EQ(results.back().supervised, 46);
    tables.push_back(engine.table);
  }
  // Sums of 46 float losses or gradients in another order.
  double bound = 46 * double(std::numeric_limits<float>::epsilon());
  for (size_t i = 1; i < results.size(); ++i) {
    EXPECT_NEAR(results[i].loss, results[0].loss, bound * results[0].loss);
    EXPECT_NEAR(results[i].gradNorm, results[0].gradNorm,
                bound * results[0].gradNorm);
  }
  EXPECT_NEAR(results[0].loss, std::log(double(vocab)), 0.1);
}

TEST(TrainerTest, EpochEndsWithWhatIsLeft) {
  TemporaryFolder folder;
  TokenDataset data = openData(folder, randomDocuments({9, 9, 9, 9, 9}));
  BigramEngine engine({10, 4}, vocab);
  TrainerOptions options;
  options.epochs = 2;
  options.accumulation = 2;
  Trainer trainer = makeTrainer(engine, data, options);
  EXPECT_EQ(trainer.totalSteps(), 6);
  std::vector<int64_t> packs;
  while (!trainer.finished())
    packs.push_back(step(trainer).packs);
  EXPECT_EQ(packs, (std::vector<int64_t>{2, 2, 1, 2, 2, 1}));
  EXPECT_EQ(trainer.state().epoch, 2);
  EXPECT_EQ(trainer.state().pack, 0);
  EXPECT_EQ(engine.seen.size(), 10u);
  // Each epoch has every document once, in another order.
  auto epoch = [&](size_t first) {
    std::vector<std::vector<int32_t>> packs(engine.seen.begin() + first,
                                            engine.seen.begin() + first + 5);
    return packs;
  };
  auto one = epoch(0), two = epoch(5);
  EXPECT_NE(one, two);
  std::sort(one.begin(), one.end());
  std::sort(two.begin(), two.end());
  EXPECT_EQ(one, two);
}

TEST(TrainerTest, MicroBatchWithoutSupervisionChangesNoBit) {
  TemporaryFolder with, without;
  TokenFile file = randomDocuments({9, 9});
  TokenDataset plain = openData(without, file);
  file.add({1, 2, 3, 4, 5, 6, 7, 8, 9}, /*supervised=*/false);
  TokenDataset gap = openData(with, file);
  BigramEngine a({10, 4}, vocab), b({10, 4}, vocab);
  TrainerOptions options;
  options.steps = 1;
  options.accumulation = 3;
  // The seed only orders the packs; sums are compared bit by bit, so one is
  // looked for that keeps the order of the two supervised packs.
  for (uint32_t seed = 0;; ++seed) {
    ASSERT_LT(seed, 100u);
    options.seed = seed;
    a = BigramEngine({10, 4}, vocab);
    b = BigramEngine({10, 4}, vocab);
    Trainer first = makeTrainer(a, plain, options);
    Trainer second = makeTrainer(b, gap, options);
    StepResult x = step(first), y = step(second);
    if (a.seen != b.seen)
      continue;
    EXPECT_EQ(y.packs, 3);
    EXPECT_EQ(x.loss, y.loss);
    EXPECT_EQ(a.table, b.table);
    EXPECT_EQ(second.state().emptyMicroBatches, 1);
    EXPECT_EQ(second.state().emptySteps, 0);
    break;
  }
}

TEST(TrainerTest, StepWithoutSupervisionChangesNothing) {
  TemporaryFolder folder;
  TokenFile file;
  file.add({1, 2, 3}, /*supervised=*/false);
  TokenDataset data = openData(folder, file);
  BigramEngine engine({4, 2}, vocab);
  ASSERT_OK(initializeParameters(engine, 1));
  auto before = engine.table;
  TrainerOptions options;
  options.steps = 3;
  Trainer trainer = makeTrainer(engine, data, options);
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(step(trainer).kind, StepResult::Kind::Empty);
    EXPECT_EQ(trainer.state().emptySteps, i);
  }
  EXPECT_TRUE(trainer.finished());
  EXPECT_EQ(trainer.state().updates, 0);
  EXPECT_EQ(engine.table, before);
  EXPECT_EQ(engine.updates, 0);
  EXPECT_EQ(engine.seen.size(), 0u);
  EXPECT_ERROR(evaluate(engine, data).status(), "no supervised token");
}

TEST(TrainerTest, NonFiniteStepKeepsWeightsAndLeavesTheNextOneAlone) {
  TemporaryFolder folder;
  TokenDataset data = openData(folder, randomDocuments({9, 9, 9}));
  for (bool inLoss : {true, false}) {
    BigramEngine engine({10, 4}, vocab);
    ASSERT_OK(initializeParameters(engine, 1));
    (inLoss ? engine.poisonedMicroStep : engine.poisonedGradient) = 2;
    TrainerOptions options;
    options.steps = 3;
    Trainer trainer = makeTrainer(engine, data, options);
    EXPECT_EQ(step(trainer).kind, StepResult::Kind::Updated);
    auto before = engine.table;
    auto moments = engine.m;
    EXPECT_EQ(step(trainer).kind, StepResult::Kind::NonFinite);
    EXPECT_EQ(engine.table, before);
    EXPECT_EQ(engine.m, moments);
    EXPECT_EQ(trainer.state().nonFiniteInARow, 1);
    // Its gradients are still there: the next step overwrites them.
    EXPECT_TRUE(std::any_of(engine.grad.begin(), engine.grad.end(),
                            [](float g) { return std::isnan(g); }));
    StepResult third = step(trainer);
    EXPECT_EQ(third.kind, StepResult::Kind::Updated);
    EXPECT_EQ(trainer.state().nonFiniteInARow, 0);
    EXPECT_EQ(trainer.state().nonFiniteSteps, 1);
    EXPECT_EQ(trainer.state().updates, 2) << "bias correction counts updates";
  }
}

TEST(TrainerTest, NonFiniteStepOfAnUntrainedParameter) {
  TemporaryFolder folder;
  TokenDataset data = openData(folder, randomDocuments({9, 9, 9}));
  BigramEngine engine({10, 4}, vocab);
  ASSERT_OK(initializeParameters(engine, 1));
  // As the parameter of a plan that nothing accumulates a gradient of.
  const_cast<ParameterRole &>(engine.roles()[0]).gradient = Buffer();
  engine.poisonedMicroStep = 1;
  TrainerOptions options;
  options.steps = 3;
  Trainer trainer = makeTrainer(engine, data, options);
  EXPECT_EQ(step(trainer).kind, StepResult::Kind::NonFinite);
  auto found = trainer.explainNonFinite();
  ASSERT_OK(found.status());
  EXPECT_EQ(*found, "nothing found when the step was run again");
}

TEST(TrainerTest, StartingAheadChangesNoResult) {
  TemporaryFolder folder;
  TokenFile file = randomDocuments({9, 9, 9, 5, 9, 7, 9});
  for (int i = 0; i < 5; ++i) // steps without a supervised token among others
    file.add({1, 2, 3, 4, 5, 6, 7, 8, 9}, /*supervised=*/false);
  TokenDataset data = openData(folder, file);
  TrainerOptions options;
  options.steps = 25;
  int64_t empty = 0, nonFinite = 0;
  for (int64_t accumulation : {1, 3, 12}) {
    options.accumulation = accumulation;
    BigramEngine plain({10, 4}, vocab);
    // Fewer outputs are kept than the largest step has micro-batches.
    BigramEngine ahead({10, 4}, vocab, BigramEngine::Kind::Device, 5);
    for (BigramEngine *engine : {&plain, &ahead}) {
      ASSERT_OK(initializeParameters(*engine, 1));
      engine->poisonedMicroStep = 4;
      engine->poisonedGradient = 6;
    }
    Trainer one = makeTrainer(plain, data, options);
    Trainer two = makeTrainer(ahead, data, options);
    ASSERT_OK(two.start());
    while (!one.finished()) {
      StepResult expected = step(one), result;
      ASSERT_OK(two.start());
      ASSERT_OK(two.finish(result));
      EXPECT_EQ(result.kind, expected.kind);
      // NaN is not equal to itself.
      if (std::isfinite(expected.loss)) {
        EXPECT_EQ(result.loss, expected.loss);
      }
      if (std::isfinite(expected.gradNorm)) {
        EXPECT_EQ(result.gradNorm, expected.gradNorm);
      }
      EXPECT_EQ(result.learningRate, expected.learningRate);
      EXPECT_EQ(result.tokens, expected.tokens);
      EXPECT_EQ(result.supervised, expected.supervised);
      EXPECT_EQ(result.contextPairs, expected.contextPairs);
      EXPECT_EQ(result.packs, expected.packs);
      EXPECT_EQ(formatTrainerState(two.state(), "{}"),
                formatTrainerState(one.state(), "{}"));
      EXPECT_EQ(two.packsOfEpoch(), one.packsOfEpoch());
      // No update of a later step was started: these are this step's weights.
      EXPECT_EQ(ahead.table, plain.table);
      EXPECT_EQ(ahead.m, plain.m);
      EXPECT_EQ(ahead.v, plain.v);
      empty += result.kind == StepResult::Kind::Empty;
      nonFinite += result.kind == StepResult::Kind::NonFinite;
    }
    EXPECT_TRUE(two.finished());
    EXPECT_EQ(two.pendingSteps(), 0);
    EXPECT_EQ(ahead.seen, plain.seen);
    EXPECT_EQ(ahead.order, plain.order);
  }
  EXPECT_GT(empty, 0);
  EXPECT_GT(nonFinite, 0);
}

TEST(TrainerTest, CancelledStepLeavesNothingBehind) {
  TemporaryFolder folder;
  TokenDataset data = openData(folder, randomDocuments({9, 9, 9, 9, 9}));
  BigramEngine plain({10, 4}, vocab);
  BigramEngine ahead({10, 4}, vocab, BigramEngine::Kind::Device);
  TrainerOptions options;
  options.steps = 12;
  options.accumulation = 2;
  Trainer one = makeTrainer(plain, data, options);
  Trainer two = makeTrainer(ahead, data, options);
  while (!one.finished()) {
    StepResult expected = step(one), result;
    ASSERT_OK(two.start());
    ASSERT_OK(two.start()); // the next one, which is dropped
    ASSERT_OK(two.finish(result));
    ASSERT_OK(two.cancel());
    EXPECT_EQ(result.loss, expected.loss);
    EXPECT_EQ(ahead.table, plain.table);
    EXPECT_EQ(ahead.grad, plain.grad);
    EXPECT_EQ(formatTrainerState(two.state(), "{}"),
              formatTrainerState(one.state(), "{}"));
  }
}

TEST(TrainerTest, EvaluationIsTheTokenMeanAndTrainsNothing) {
  TemporaryFolder folder;
  TokenDataset data = openData(folder, randomDocuments({9, 3, 7}));
  BigramEngine engine({10, 4}, vocab);
  auto result = evaluate(engine, data, [] { return false; });
  ASSERT_OK(result.status());
  EXPECT_FALSE(result->stopped);
  EXPECT_EQ(result->supervised, 16);
  EXPECT_NEAR(result->loss, std::log(double(vocab)), 1e-6);
  EXPECT_EQ(std::count(engine.grad.begin(), engine.grad.end(), 0.0f),
            int64_t(engine.grad.size()));
}

TEST(TrainerStateTest, RoundTripAndLies) {
  TemporaryFolder folder;
  TrainerState state;
  state.step = 12;
  state.updates = 11;
  state.epoch = 3;
  state.pack = 2;
  state.nonFiniteSteps = 1;
  state.identity = {0xfedcba9876543210u, 4000000000u, 128, 16, 4};
  std::string text = formatTrainerState(state, R"({"lr": 0.1})");
  std::string path = folder / "trainer_state.json";
  writeFile(path, text);
  auto read = readTrainerState(folder.path);
  ASSERT_OK(read.status());
  EXPECT_EQ(formatTrainerState(*read, R"({"lr": 0.1})"), text);
  ASSERT_OK(checkSameRun(state.identity, read->identity));
  for (auto [from, to] : {std::pair("\"step\": 12", "\"step\": -12"),
                          std::pair("\"pack\"", "\"park\""),
                          std::pair("qwen-trainer-1", "qwen-trainer-9"),
                          std::pair("fedcba98", "xyz")}) {
    std::string lie = text;
    lie.replace(lie.find(from), std::string(from).size(), to);
    writeFile(path, lie);
    EXPECT_ERROR(readTrainerState(folder.path).status(), path);
  }
  RunIdentity other = state.identity;
  other.seed = 1;
  other.accumulation = 2;
  Status status = checkSameRun(state.identity, other);
  EXPECT_ERROR(status, "accumulation was 4 and is 2");
  EXPECT_ERROR(status, "seed was 4000000000 and is 1");
}

TEST(Trainer, AddsNothingToNarrowGradients) {
  TrainerOptions options;
  for (DType dtype : {DType::F32, DType::BF16})
    EXPECT_TRUE(checkMicroBatches(dtype, options, 2).ok());
  options.packsPerStep = 2;
  EXPECT_TRUE(checkMicroBatches(DType::BF16, options, 2).ok());
  EXPECT_EQ(
      checkMicroBatches(DType::BF16, options, 1).message(),
      "the plan's gradients are bf16 and take 1 micro-batches a step, one "
      "on each rank, but the step has 2");
  options.packsPerStep = 0;
  options.accumulation = 2;
  EXPECT_TRUE(checkMicroBatches(DType::F32, options, 2).ok());
  EXPECT_EQ(checkMicroBatches(DType::BF16, options, 2).code(),
            StatusCode::FailedPrecondition);
}
