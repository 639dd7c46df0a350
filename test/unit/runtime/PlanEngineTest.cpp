//===- PlanEngineTest.cpp - The executor under the trainer ----------------===//

#include "runtime/trainer/PlanEngine.h"
#include "TinyPlan.h"
#include "TokenFile.h"
#include "runtime/trainer/Initialize.h"
#include "runtime/trainer/Trainer.h"

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
