//===- PlanEngineTest.cpp - The executor under the trainer ----------------===//

#include "runtime/trainer/PlanEngine.h"
#include "TinyPlan.h"
#include "TokenFile.h"
#include "runtime/trainer/Initialize.h"
#include "runtime/trainer/LaunchSearch.h"
#include "runtime/trainer/Trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace qwen;

static StatusOr<PlanEngine> makeEngine(const TinyPlanOptions &options) {
  std::string bytes = makeTinyPlan(options);
  QWEN_ASSIGN_OR_RETURN(Plan plan,
                        Plan::parse(std::as_bytes(std::span(bytes)), "tiny"));
  ExecutorOptions executor;
  executor.threads = 2;
  return PlanEngine::create(plan, executor);
}

/// Sentences of the language a -> a + 1.
static TokenFile countingDocuments() {
  TokenFile file;
  for (int first = 0; first < 20; ++first) {
    std::vector<int32_t> document;
    for (int i = 0; i < 3 + first % 4; ++i)
      document.push_back((first + i) % 32);
    file.add(document);
  }
  return file;
}

TEST(PlanEngineTest, BindsWhatThePlanHas) {
  auto engine = makeEngine({});
  ASSERT_OK(engine.status());
  EXPECT_EQ(engine->limits().tokens, 16);
  EXPECT_EQ(engine->limits().documents, 4);
  EXPECT_EQ(engine->vocabSize(), 32);
  ASSERT_EQ(engine->parameters().size(), 2u);
  EXPECT_EQ(engine->parameters()[1].name, "lm_head.weight");
  EXPECT_EQ(engine->parameters()[1].shape, (std::vector<int64_t>{32, 8}));
  EXPECT_EQ(engine->parameters()[1].master.data, nullptr);
  EXPECT_TRUE(engine->roles()[0].decay);
  EXPECT_FALSE(engine->roles()[1].decay);
  EXPECT_EQ(engine->trainingFlops(10, 1000), 10 * 6.0 * 32 * 8);
}

TEST(PlanEngineTest, NamesWhatATrainingPlanLacks) {
  TinyPlanOptions options;
  options.withEval = false;
  EXPECT_ERROR(makeEngine(options).status(), "it has no program 'eval'");
  options.withEval = true;
  options.withRng = false;
  EXPECT_ERROR(makeEngine(options).status(), "it has no input 'rng'");
}

TEST(PlanEngineTest, LearnsToCountInEveryPrecision) {
  TemporaryFolder folder;
  countingDocuments().write(folder / "t.safetensors");
  auto data = TokenDataset::open(folder / "t.safetensors", 32);
  ASSERT_OK(data.status());
  struct Precision {
    DType dtype;
    bool masters;
  };
  for (Precision precision :
       {Precision{DType::F32, false}, Precision{DType::BF16, true},
        Precision{DType::BF16, false}}) {
    TinyPlanOptions plan;
    plan.parameters = precision.dtype;
    plan.masters = precision.masters;
    auto engine = makeEngine(plan);
    ASSERT_OK(engine.status());
    ASSERT_OK(initializeParameters(*engine, 1));
    auto before = evaluate(*engine, *data);
    ASSERT_OK(before.status());
    EXPECT_NEAR(before->loss, std::log(32.0), 0.5);
    TrainerOptions options;
    options.steps = 300;
    options.schedule.peak = 3e-2;
    auto trainer = Trainer::create(*engine, *data, options);
    ASSERT_OK(trainer.status());
    StepResult result;
    while (!trainer->finished())
      ASSERT_OK(trainer->step(result));
    auto after = evaluate(*engine, *data);
    ASSERT_OK(after.status());
    // The next token is certain, so that the loss can go to 0.
    EXPECT_LT(after->loss, before->loss / 4);
  }
}

namespace {
/// An engine with weights and a pack in its inputs.
class NonFiniteLaunchTest : public testing::Test {
protected:
  void SetUp() override {
    countingDocuments().write(folder / "t.safetensors");
    auto opened = TokenDataset::open(folder / "t.safetensors", 32);
    ASSERT_OK(opened.status());
    data.emplace(std::move(opened).value());
    auto made = makeEngine({});
    ASSERT_OK(made.status());
    engine.emplace(std::move(made).value());
    ASSERT_OK(initializeParameters(*engine, 1));
    options.steps = 10;
  }
  /// What is said after a step that must not be finite.
  void explain(std::string &text) {
    auto trainer = Trainer::create(*engine, *data, options);
    ASSERT_OK(trainer.status());
    StepResult result;
    ASSERT_OK(trainer->step(result));
    ASSERT_EQ(result.kind, StepResult::Kind::NonFinite);
    std::vector<float> before = weights();
    auto found = trainer->explainNonFinite();
    ASSERT_OK(found.status());
    EXPECT_EQ(std::memcmp(weights().data(), before.data(), before.size() * 4),
              0);
    text = *found;
  }
  std::vector<float> weights() {
    std::vector<float> all;
    for (const ParameterView &view : engine->parameters())
      for (const Buffer &buffer : {view.value, view.moment1, view.moment2})
        all.insert(all.end(), buffer.as<float>(),
                   buffer.as<float>() + buffer.elements());
    return all;
  }

  TemporaryFolder folder;
  std::optional<TokenDataset> data;
  std::optional<PlanEngine> engine;
  TrainerOptions options;
};
} // namespace

TEST_F(NonFiniteLaunchTest, NothingIsFoundWhereAllIsWell) {
  auto trainer = Trainer::create(*engine, *data, options);
  ASSERT_OK(trainer.status());
  StepResult result;
  ASSERT_OK(trainer->step(result));
  ASSERT_EQ(result.kind, StepResult::Kind::Updated);
  std::vector<float> before = weights();
  auto found = trainer->explainNonFinite();
  ASSERT_OK(found.status());
  EXPECT_EQ(*found, "nothing found when the step was run again");
  EXPECT_EQ(weights(), before);
}

TEST_F(NonFiniteLaunchTest, TheLaunchAndItsParameterAreNamed) {
  // Element 5 of the row of token 3, which the second pack is the first to
  // have.
  engine->parameters()[0].value.as<float>()[3 * 8 + 5] =
      -std::numeric_limits<float>::infinity();
  options.accumulation = 2;
  std::string text;
  explain(text);
  EXPECT_EQ(text.find("micro-batch 2 of 2 (pack 1 of epoch 0), launch 1 of "
                      "'micro_step' (embedding): output 'out' (f32[16, 8]) has "
                      "1 of 128 elements that are not finite, the first at ["),
            0u)
      << text;
  EXPECT_NE(text.find(", 5]: -inf; it reads parameter "
                      "'model.embed_tokens.weight', which is not finite at "
                      "element 29"),
            text.npos)
      << text;
}

TEST_F(NonFiniteLaunchTest, AnOverflowIsNamedWithoutAParameter) {
  Buffer head = engine->parameters()[1].value;
  for (int64_t i = 0; i < head.elements(); ++i)
    head.as<float>()[i] = i % 2 ? 3e38f : -3e38f;
  Buffer table = engine->parameters()[0].value;
  for (int64_t i = 0; i < table.elements(); ++i)
    table.as<float>()[i] = i % 2 ? 8.0f : -8.0f;
  std::string text;
  explain(text);
  EXPECT_NE(text.find("of 'first_micro_step' (linear_cross_entropy"), text.npos)
      << text;
  EXPECT_EQ(text.find("parameter"), text.npos) << text;
}

TEST(CountNonFiniteTest, LooksAtTheViewAlone) {
  std::vector<float> values(24, 1.0f);
  float nan = std::numeric_limits<float>::quiet_NaN();
  ConstBuffer view; // [2, 3, 2] of rows of 4, without the last two
  view.rank = 3;
  view.shape = {2, 3, 2};
  view.strides = {12, 4, 1};
  view.data = values.data();
  values[2] = values[7] = nan; // beside it
  auto found = countNonFinite(hostMemory(), view);
  ASSERT_OK(found.status());
  EXPECT_EQ(found->count, 0);
  values[17] = -std::numeric_limits<float>::infinity();
  values[20] = nan;
  found = countNonFinite(hostMemory(), view);
  ASSERT_OK(found.status());
  EXPECT_EQ(found->count, 2);
  EXPECT_EQ(found->first, (std::array<int64_t, 4>{1, 1, 1, 0}));
  EXPECT_EQ(found->value, -std::numeric_limits<double>::infinity());
  // A column: no two elements are neighbours.
  view.rank = 1;
  view.shape = {6};
  view.strides = {4};
  found = countNonFinite(hostMemory(), view);
  ASSERT_OK(found.status());
  EXPECT_EQ(found->count, 1);
  EXPECT_EQ(found->first[0], 5);
  EXPECT_TRUE(std::isnan(found->value));
}
