//===- CpuAgreementTest.cpp - Ten steps on the GPU and on the CPU ---------===//
//
// Trains the same model on the same packs three times: on the CPU in float32,
// on the CPU in bf16, and on the GPU in bf16. float32 is the truth; the error
// of the GPU is held to that of the CPU's bf16 arithmetic, by the ratio to
// which the golden test holds two implementations (test/golden/README.md).
//
//===----------------------------------------------------------------------===//

#include "test/e2e/Model.h"

#include "runtime/trainer/Schedule.h"

using namespace qwen;
using namespace qwen::e2e;

namespace {

constexpr int steps = 10;
/// Micro-batches of a step.
constexpr int accumulation = 2;
/// What the ratio of two implementations' bf16 errors may be.
constexpr double errorRatio = 1.5;

enum class Machine { CpuFloat32, CpuBfloat16, Gpu };

/// What a run leaves.
struct Trained {
  std::vector<float> nll; ///< of all tokens of all steps
  std::vector<double> losses;
  Tensors gradients; ///< of the first step
  Tensors updates;   ///< final minus initial weights
};

class CpuAgreementTest : public testing::TestWithParam<std::string> {};

} // namespace

static PlanSpec specOf(const std::string &config, Machine machine) {
  PlanSpec spec;
  spec.config = config;
  spec.dtype = machine == Machine::CpuFloat32 ? "f32" : "bf16";
  if (machine == Machine::Gpu)
    spec.target = testOptions().target;
  spec.tokens = 320;
  return spec;
}

static std::vector<std::string> configs() {
  return {"tiny-hopper-tied", "tiny-hopper-untied"};
}

/// The micro-batches of a step: two steps in turn, so that something is learnt.
static std::vector<std::vector<TestDocument>> documentsOf(int step,
                                                          int32_t vocabulary) {
  Generator generator(uint32_t(1000 + step % 2));
  std::vector<std::vector<TestDocument>> packs(accumulation);
  for (auto &pack : packs)
    for (int64_t most : {5, 66, 130, 100})
      pack.push_back(randomDocument(
          generator, 1 + draw(generator, int32_t(most)), vocabulary, 80));
  return packs;
}

static Trained train(Model &model) {
  Trained result;
  Tensors initial = model.weights();
  for (int step = 0; step < steps; ++step) {
    auto packs = documentsOf(step, model.vocabulary());
    int64_t supervised = 0;
    for (const auto &documents : packs)
      supervised += countSupervised(documents);
    double sum = 0;
    for (const auto &documents : packs) {
      std::vector<float> nll =
          model.microStep(makePack(documents, model.limits()),
                          static_cast<float>(1.0 / double(supervised)));
      for (float value : nll)
        sum += double(value);
      result.nll.insert(result.nll.end(), nll.begin(), nll.end());
    }
    result.losses.push_back(sum / double(supervised));
    if (step == 0)
      result.gradients = model.gradients();
    model.update(makeHyper({}, 1e-3, step + 1), step);
  }
  result.updates = model.weights();
  for (auto &[name, values] : result.updates)
    for (size_t i = 0; i < values.size(); ++i)
      values[i] -= initial.at(name)[i];
  return result;
}

/// Expects the GPU's error of each tensor to be that of the CPU's bf16, small
/// tensors joined.
static void expectErrors(const Tensors &gpu, const Tensors &cpu,
                         const Tensors &truth, const char *what) {
  Tensors gpuJoined = joinSmall(gpu), cpuJoined = joinSmall(cpu);
  for (const auto &[name, want] : joinSmall(truth))
    EXPECT_LE(relativeError(gpuJoined.at(name), want),
              errorRatio * relativeError(cpuJoined.at(name), want))
        << what << " of " << name;
}

TEST_P(CpuAgreementTest, TenSteps) {
  std::vector<Trained> runs;
  for (Machine machine :
       {Machine::CpuFloat32, Machine::CpuBfloat16, Machine::Gpu}) {
    ASSERT_OK_AND_TAKE(model, goldenModel(specOf(GetParam(), machine)));
    runs.push_back(train(model));
    EXPECT_TRUE(allFinite(runs.back().updates));
  }
  const Trained &truth = runs[0], &cpu = runs[1], &gpu = runs[2];
  std::printf("step  loss: CPU float32  CPU bf16  GPU bf16\n");
  for (size_t step = 0; step < truth.losses.size(); ++step)
    std::printf("%4zu       %.6f      %.6f  %.6f\n", step, truth.losses[step],
                cpu.losses[step], gpu.losses[step]);
  std::printf("relative error of all losses: CPU %.2e, GPU %.2e\n",
              relativeError(cpu.nll, truth.nll),
              relativeError(gpu.nll, truth.nll));
  EXPECT_LT(truth.losses.back(), truth.losses.front());
  EXPECT_LE(relativeError(gpu.nll, truth.nll),
            errorRatio * relativeError(cpu.nll, truth.nll));
  expectErrors(gpu.gradients, cpu.gradients, truth.gradients, "gradient");
  expectErrors(gpu.updates, cpu.updates, truth.updates, "update");
}

INSTANTIATE_TEST_SUITE_P(Models, CpuAgreementTest, testing::ValuesIn(configs()),
                         [](const auto &info) { return testName(info.param); });

int main(int argc, char **argv) {
  return runTests(argc, argv, [] {
    std::vector<PlanSpec> specs;
    for (const std::string &config : configs())
      for (Machine machine :
           {Machine::CpuFloat32, Machine::CpuBfloat16, Machine::Gpu})
        specs.push_back(specOf(config, machine));
    return specs;
  });
}
