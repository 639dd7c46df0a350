//===- ExecutorCudaTest.cpp - A small training plan on a GPU --------------===//
//
// Graph replay against plain launches, runs in flight, and the same plan on the
// processor.
//
//===----------------------------------------------------------------------===//

#include "qwen/Support/BFloat16.h"
#include "qwen/Support/Tolerance.h"
#include "runtime/executor/Executor.h"
#include "test/parity/cuda/RequireGpu.h"
#include "test/unit/runtime/TinyPlan.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>

using namespace qwen;

namespace {

/// Large enough for several blocks of every kernel.
TinyPlanOptions optionsFor(std::string target) {
  TinyPlanOptions options;
  options.tokens = 256;
  options.vocab = 1000;
  options.hidden = 64;
  options.parameters = DType::BF16;
  options.target = std::move(target);
  return options;
}

Plan tinyPlan(const TinyPlanOptions &options) {
  std::string bytes = makeTinyPlan(options);
  auto plan = Plan::parse(std::as_bytes(std::span(bytes)), "tiny");
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return *plan;
}

using Bytes = std::vector<std::byte>;

/// The tiny plan with fixed weights, driven by hand.
class TinyModel {
public:
  TinyModel(const TinyPlanOptions &plan, const ExecutorOptions &options) {
    auto made = Executor::create(tinyPlan(plan), options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    executor = std::move(made).value();
    for (auto [name, program] :
         {std::pair("first_micro_step", &firstMicroStep),
          std::pair("micro_step", &microStep), std::pair("update", &update),
          std::pair("eval", &eval)})
      *program = *executor->plan().findProgram(name);
    std::mt19937 generator(7);
    for (int i : {0, 1}) {
      Buffer weights = executor->parameter(i);
      std::vector<BFloat16> values;
      for (int64_t e = 0; e < weights.elements(); ++e)
        values.push_back(
            toBFloat16(float(generator() % 2001) * 0.0003f - 0.3f));
      EXPECT_TRUE(
          executor->memory()
              .copyToDevice(weights.data, values.data(), weights.bytes())
              .ok());
    }
  }

  /// Random tokens and labels from a seed.
  void setPack(uint32_t seed) {
    std::mt19937 generator(seed);
    int64_t vocab = executor->plan().info().vocabSize;
    for (const char *name : {"tokens", "labels"}) {
      Buffer input = *executor->input(name);
      for (int64_t i = 0; i < input.elements(); ++i)
        input.as<int32_t>()[i] = int32_t(generator() % uint32_t(vocab));
    }
    // A token without a label.
    executor->input("labels")->as<int32_t>()[seed % 7] = -100;
    *executor->input("loss_scale")->as<float>() =
        1.0f / float(executor->plan().info().tokens);
  }

  void setUpdate(int number) {
    double beta1 = 0.9, beta2 = 0.95;
    const float hyper[8] = {0.01f,
                            float(1 - beta1),
                            float(1 - beta2),
                            1e-8f,
                            0.1f,
                            1.0f,
                            float(1 - std::pow(beta1, number)),
                            float(1 - std::pow(beta2, number))};
    std::memcpy(executor->input("hyper")->data, hyper, sizeof(hyper));
    const int32_t rng[2] = {5, number};
    std::memcpy(executor->input("rng")->data, rng, sizeof(rng));
  }

  Bytes bytesOf(const Buffer &buffer) {
    Bytes bytes(static_cast<size_t>(buffer.bytes()));
    Status status = executor->memory().copyToHost(bytes.data(), buffer.data,
                                                  buffer.bytes());
    EXPECT_TRUE(status.ok()) << status.message();
    return bytes;
  }

  /// Values, gradients and moments.
  std::vector<Bytes> state() {
    std::vector<Bytes> all;
    for (int i : {0, 1})
      for (const Buffer &buffer :
           {executor->parameter(i), executor->gradient(i), executor->moment1(i),
            executor->moment2(i)})
        all.push_back(bytesOf(buffer));
    return all;
  }

  std::vector<float> outputOf(RunTicket run, int program, const char *name) {
    auto output = executor->output(run, program, name);
    EXPECT_TRUE(output) << name;
    if (!output)
      return {};
    return {output->as<float>(), output->as<float>() + output->elements()};
  }

  std::unique_ptr<Executor> executor;
  int firstMicroStep = -1, microStep = -1, update = -1, eval = -1;
};

/// Three steps of two micro-batches, all started before any is waited for.
struct Course {
  std::vector<std::vector<float>> outputs;
  std::vector<Bytes> gradients, state;
};

Course runCourse(TinyModel &model) {
  Course course;
  std::vector<std::pair<RunTicket, int>> runs;
  auto start = [&](int program) {
    auto run = model.executor->start(program);
    ASSERT_TRUE(run.ok()) << run.status().message();
    runs.emplace_back(*run, program);
  };
  for (int step = 1; step <= 3; ++step) {
    for (uint32_t pack : {1, 2}) {
      model.setPack(uint32_t(step) * 10 + pack);
      start(pack == 1 ? model.firstMicroStep : model.microStep);
    }
    if (step == 2)
      course.gradients = model.state();
    model.setUpdate(step);
    start(model.update);
  }
  start(model.eval);
  EXPECT_TRUE(model.executor->finish(runs.back().first).ok());
  for (auto [run, program] : runs)
    course.outputs.push_back(model.outputOf(
        run, program, program == model.update ? "stats" : "nll"));
  course.state = model.state();
  return course;
}

bool sameBits(const std::vector<float> &a, const std::vector<float> &b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void expectSame(const Course &a, const Course &b) {
  ASSERT_EQ(a.outputs.size(), b.outputs.size());
  for (size_t i = 0; i < a.outputs.size(); ++i)
    EXPECT_TRUE(sameBits(a.outputs[i], b.outputs[i])) << "run " << i;
  EXPECT_EQ(a.gradients, b.gradients);
  EXPECT_EQ(a.state, b.state);
}

} // namespace

TEST(ExecutorCuda, GraphPlainAndPoisonedRunsAreTheSameBits) {
  TinyModel first(optionsFor("sm_90a"), {});
  Course course = runCourse(first);
  for (float value : course.outputs.back())
    EXPECT_TRUE(std::isfinite(value));
  struct Variant {
    const char *name;
    ExecutorOptions options;
  };
  const Variant variants[] = {{"graph", {}},
                              {"plain", {.graph = false}},
                              {"synchronous", {.synchronous = true}},
                              {"poisoned graph", {.poison = true}},
                              {"poisoned", {.poison = true, .graph = false}}};
  for (const Variant &variant : variants) {
    SCOPED_TRACE(variant.name);
    TinyModel model(optionsFor("sm_90a"), variant.options);
    expectSame(course, runCourse(model));
  }
}

// Operands are bf16 and sums float32 on both. The logits of the GPU are stored
// as bf16.
TEST(ExecutorCuda, AgreesWithTheProcessor) {
  TinyModel gpu(optionsFor("sm_90a"), {});
  TinyModel cpu(optionsFor("x86-64-v3"), {});
  for (TinyModel *model : {&gpu, &cpu}) {
    model->setPack(3);
    Status status = model->executor->run(model->microStep);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  Buffer got = *gpu.executor->output(gpu.microStep, "nll");
  Buffer want = *cpu.executor->output(cpu.microStep, "nll");
  // |logit| <= 64 * 0.3 * 0.3; the loss is a difference of two such.
  double bound = 2 * 64 * 0.09 *
                 (unitRoundoff(DType::BF16) + sumTolerance(DType::BF16, 1000));
  for (int64_t t = 0; t < want.elements(); ++t)
    EXPECT_NEAR(got.as<float>()[t], want.as<float>()[t], bound) << t;
}

TEST(ExecutorCuda, KeepsTheOutputsOfRunsInFlight) {
  TinyModel model(optionsFor("sm_90a"), {});
  Executor &executor = *model.executor;
  std::vector<std::vector<float>> expected;
  for (uint32_t pack = 0; pack < 5; ++pack) {
    model.setPack(pack);
    ASSERT_TRUE(executor.run(model.eval).ok());
    auto nll = executor.output(model.eval, "nll");
    ASSERT_TRUE(nll);
    expected.emplace_back(nll->as<float>(), nll->as<float>() + nll->elements());
  }
  EXPECT_FALSE(sameBits(expected[0], expected[1]));
  std::vector<RunTicket> runs;
  for (int i = 0; i < 3 * runsInFlight; ++i) {
    model.setPack(uint32_t(i % 5));
    auto run = executor.start(model.eval);
    ASSERT_TRUE(run.ok()) << run.status().message();
    runs.push_back(*run);
  }
  ASSERT_TRUE(executor.finish(runs.back()).ok());
  EXPECT_TRUE(executor.finish(runs.front()).ok());
  EXPECT_EQ(executor.output(runs.front(), model.eval, "nll"), std::nullopt);
  EXPECT_EQ(executor.output(runs.back(), model.update, "stats"), std::nullopt);
  for (size_t i = runs.size() - size_t(runsInFlight); i < runs.size(); ++i)
    EXPECT_TRUE(
        sameBits(model.outputOf(runs[i], model.eval, "nll"), expected[i % 5]))
        << i;
  EXPECT_FALSE(executor.finish({int64_t(1) << 40}).ok());
}

TEST(ExecutorCuda, CountsLaunchesAndMemory) {
  TinyModel model(optionsFor("sm_90a"), {});
  Executor &executor = *model.executor;
  for (int program :
       {model.firstMicroStep, model.microStep, model.update, model.eval}) {
    LaunchCounts counts = executor.launchCounts(program);
    EXPECT_EQ(counts.driverCalls, 4);
    auto byLaunch = executor.kernelsByLaunch(program);
    ASSERT_TRUE(byLaunch.ok()) << byLaunch.status().message();
    int64_t sum = 0;
    for (int64_t kernels : *byLaunch) {
      EXPECT_GT(kernels, 0);
      sum += kernels;
    }
    EXPECT_EQ(counts.kernels, sum);
    std::vector<float> times(byLaunch->size(), -1);
    ASSERT_TRUE(executor.runTimed(program, times).ok());
    for (float time : times)
      EXPECT_GT(time, 0);
  }
  MemoryReport report = executor.memoryReport();
  EXPECT_EQ(report.plan, executor.plan().info().forecast.total());
  EXPECT_GT(report.before, 0);
  std::printf("memory: plan %.1f MiB, before %.1f MiB, libraries %.1f MiB\n",
              double(report.plan) / 0x1p20, double(report.before) / 0x1p20,
              double(report.libraries) / 0x1p20);
}

TEST(ExecutorCuda, RunsAPrefix) {
  TinyModel model(optionsFor("sm_90a"), {.poison = true});
  model.setPack(1);
  ASSERT_TRUE(model.executor->runPrefix(model.microStep, 2).ok());
  Buffer nll = *model.executor->output(model.microStep, "nll");
  EXPECT_TRUE(std::isnan(nll.as<float>()[0]));
  ASSERT_TRUE(model.executor->runPrefix(model.microStep, 3).ok());
  nll = *model.executor->output(model.microStep, "nll");
  EXPECT_TRUE(std::isfinite(nll.as<float>()[0]));
}

TEST(ExecutorCuda, SaysWhatIsMissing) {
  Plan plan = tinyPlan(optionsFor("sm_90a"));
  auto other = Executor::create(plan, {.device = 99});
  EXPECT_EQ(other.status().code(), StatusCode::FailedPrecondition);
  EXPECT_NE(other.status().message().find("there is no GPU 99"),
            std::string::npos)
      << other.status().message();
  // Two matrices of 2^33 elements with gradients and moments.
  TinyPlanOptions large = optionsFor("sm_90a");
  large.vocab = 1 << 18;
  large.hidden = 1 << 15;
  auto tooLarge = Executor::create(tinyPlan(large), {});
  EXPECT_EQ(tooLarge.status().code(), StatusCode::ResourceExhausted);
  EXPECT_NE(tooLarge.status().message().find("GiB of device memory; "),
            std::string::npos)
      << tooLarge.status().message();
}

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  cudatest::requireGpu();
  return RUN_ALL_TESTS();
}
