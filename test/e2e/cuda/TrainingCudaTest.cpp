//===- TrainingCudaTest.cpp - The trainer on a GPU ------------------------===//
//
// Steps that are started ahead, runs that stop and go on, numbers that are not
// finite, and initial weights, with a compiled model on a GPU.
//
//===----------------------------------------------------------------------===//

#include "test/e2e/Model.h"

#include "runtime/checkpoint/Staging.h"
#include "runtime/trainer/Initialize.h"
#include "runtime/trainer/PlanEngine.h"
#include "runtime/trainer/TrainingRun.h"
#include "test/unit/runtime/Resume.h"
#include "test/unit/runtime/TokenFile.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace qwen;
using namespace qwen::e2e;

/// float32 masters and moments, or everything in bf16.
static PlanSpec specOf(bool narrow, const std::string &target) {
  PlanSpec spec;
  spec.config = "tiny-hopper-tied";
  spec.target = target;
  spec.dtype = "bf16";
  spec.tokens = 256;
  spec.maxDocuments = 8;
  if (narrow) {
    spec.masters = "none";
    spec.momentType = "bf16";
  }
  return spec;
}

namespace {

class TrainingCudaTest : public testing::TestWithParam<bool> {
protected:
  StatusOr<PlanEngine> makeEngine(const std::string &target) {
    QWEN_ASSIGN_OR_RETURN(Plan plan, compilePlan(specOf(GetParam(), target)));
    QWEN_ASSIGN_OR_RETURN(PlanEngine engine, PlanEngine::create(plan, {}));
    QWEN_RETURN_IF_ERROR(initializeParameters(engine, 7));
    return engine;
  }
  StatusOr<PlanEngine> makeEngine() { return makeEngine(testOptions().target); }

  /// Documents of 2 to 200 tokens that count upwards; some without a label.
  StatusOr<TokenDataset> makeData(int documents) {
    TokenFile file;
    Generator generator(5);
    for (int i = 0; i < documents; ++i) {
      std::vector<int32_t> document(size_t(2 + draw(generator, 199)));
      int32_t next = draw(generator, 100);
      for (int32_t &token : document)
        token = next++ % 256;
      file.add(document, i % 9 != 4);
    }
    std::string path = folder / fmt::format("data-{}", documents);
    file.write(path);
    return TokenDataset::open(path, 256);
  }

  TemporaryFolder folder;
};

} // namespace

static TrainerOptions optionsFor(int64_t steps, int64_t accumulation) {
  TrainerOptions options;
  options.steps = steps;
  options.accumulation = accumulation;
  options.seed = 11;
  options.schedule.peak = 1e-3;
  return options;
}

/// The bytes of everything that a step leaves to the next one.
static StatusOr<std::string> bytesOf(PlanEngine &engine) {
  std::string all;
  Staging staging(engine.memory());
  for (const ParameterView &view : engine.parameters())
    for (const Buffer &buffer :
         {view.value, view.master, view.moment1, view.moment2})
      if (buffer.data)
        QWEN_RETURN_IF_ERROR(
            staging.read(buffer, [&](int64_t, const ConstBuffer &piece) {
              all.append(piece.as<char>(), size_t(piece.bytes()));
              return okStatus();
            }));
  return all;
}

TEST_P(TrainingCudaTest, RandomWeightsAreThoseOfTheCpu) {
  ASSERT_OK_AND_TAKE(gpu, makeEngine());
  ASSERT_OK_AND_TAKE(cpu, makeEngine(PlanSpec::defaultTarget));
  ASSERT_EQ(gpu.parameters().size(), cpu.parameters().size());
  ASSERT_OK_AND_TAKE(gpuBytes, bytesOf(gpu));
  ASSERT_OK_AND_TAKE(cpuBytes, bytesOf(cpu));
  EXPECT_EQ(gpuBytes, cpuBytes);
  EXPECT_NE(gpuBytes, std::string(gpuBytes.size(), '\0'));
}

TEST_P(TrainingCudaTest, StartingAheadChangesNoBit) {
  ASSERT_OK_AND_TAKE(data, makeData(40));
  ASSERT_OK_AND_TAKE(plain, makeEngine());
  ASSERT_OK_AND_TAKE(ahead, makeEngine());
  // The second step has more micro-batches than outputs are kept.
  for (int64_t accumulation : {int64_t(2), runsInFlight + 10}) {
    ASSERT_OK_AND_TAKE(
        one, Trainer::create(plain, data, optionsFor(6, accumulation)));
    ASSERT_OK_AND_TAKE(
        two, Trainer::create(ahead, data, optionsFor(6, accumulation)));
    ASSERT_OK(two.start());
    while (!one.finished()) {
      StepResult expected, result;
      ASSERT_OK(one.step(expected));
      ASSERT_OK(two.start());
      ASSERT_OK(two.finish(result));
      EXPECT_EQ(result.kind, StepResult::Kind::Updated);
      EXPECT_EQ(result.loss, expected.loss);
      EXPECT_EQ(result.gradNorm, expected.gradNorm);
    }
    ASSERT_OK_AND_TAKE(plainBytes, bytesOf(plain));
    ASSERT_OK_AND_TAKE(aheadBytes, bytesOf(ahead));
    EXPECT_EQ(aheadBytes, plainBytes);
  }
}

TEST_P(TrainingCudaTest, ARunThatStopsAndGoesOnKeepsEveryBit) {
  ASSERT_OK_AND_TAKE(data, makeData(40));
  std::FILE *sink = std::fopen("/dev/null", "w");
  ASSERT_NE(sink, nullptr);
  auto runIn = [&](const std::string &out, int64_t stopAt) -> Status {
    QWEN_ASSIGN_OR_RETURN(RunDirectory directory, RunDirectory::open(out));
    QWEN_ASSIGN_OR_RETURN(PlanEngine engine, makeEngine());
    QWEN_ASSIGN_OR_RETURN(Trainer trainer,
                          Trainer::create(engine, data, optionsFor(14, 2)));
    QWEN_ASSIGN_OR_RETURN(auto resumed, resumeNewest(out, engine, trainer));
    RunFiles files{&directory, resumed ? &resumed->weights : nullptr, nullptr};
    Progress progress(sink, 1);
    RunOptions options;
    options.evalEvery = 5;
    TrainingRun run(trainer, engine, &data, files, options, nullptr, progress);
    return run.run([&] { return trainer.state().step >= stopAt; }).status();
  };
  ASSERT_OK(runIn(folder / "straight", 100));
  for (int64_t stop : {1, 4, 5, 9, 100})
    ASSERT_OK(runIn(folder / "parts", stop));
  std::fclose(sink);
  for (const char *file :
       {"model.safetensors", "optimizer.safetensors", "trainer_state.json"})
    EXPECT_EQ(readFile(folder / "parts/checkpoint-14/" + file),
              readFile(folder / "straight/checkpoint-14/" + file))
        << file;
}

TEST_P(TrainingCudaTest, AStepThatIsNotFiniteKeepsTheWeights) {
  ASSERT_OK_AND_TAKE(data, makeData(40));
  ASSERT_OK_AND_TAKE(engine, makeEngine());
  ASSERT_OK_AND_TAKE(trainer, Trainer::create(engine, data, optionsFor(20, 2)));
  StepResult result;
  for (int i = 0; i < 3; ++i)
    ASSERT_OK(trainer.step(result));
  // An infinite weight of the last norm makes every loss NaN.
  size_t index = 0;
  while (engine.parameters()[index].name.find("model.norm.weight") ==
         std::string::npos)
    ++index;
  uint16_t infinity = 0x7f80;
  ASSERT_EQ(engine.parameters()[index].value.dtype, DType::BF16);
  ASSERT_OK(engine.memory().copyToDevice(engine.parameters()[index].value.data,
                                         &infinity, sizeof infinity));
  ASSERT_OK_AND_TAKE(before, bytesOf(engine));
  ASSERT_OK(trainer.start());
  for (int i = 1; i <= 3; ++i) {
    ASSERT_OK(trainer.start());
    ASSERT_OK(trainer.finish(result));
    EXPECT_EQ(result.kind, StepResult::Kind::NonFinite);
    EXPECT_FALSE(std::isfinite(result.gradNorm));
    EXPECT_EQ(trainer.state().nonFiniteInARow, i);
    EXPECT_EQ(trainer.state().updates, 3);
  }
  ASSERT_OK_AND_TAKE(found, trainer.explainNonFinite());
  EXPECT_NE(found.find(fmt::format("it reads parameter '{}', which is not "
                                   "finite at element 0",
                                   engine.parameters()[index].name)),
            std::string::npos)
      << found;
  ASSERT_OK_AND_TAKE(after, bytesOf(engine));
  EXPECT_EQ(after, before) << "weights and moments";
}

static std::vector<PlanSpec> everyPlan() {
  std::vector<PlanSpec> specs;
  for (bool narrow : {false, true})
    for (const std::string &target :
         {testOptions().target, std::string(PlanSpec::defaultTarget)})
      specs.push_back(specOf(narrow, target));
  return specs;
}

INSTANTIATE_TEST_SUITE_P(States, TrainingCudaTest, testing::Bool(),
                         [](const auto &info) {
                           return info.param ? "bf16" : "f32";
                         });

int main(int argc, char **argv) { return runTests(argc, argv, everyPlan); }
