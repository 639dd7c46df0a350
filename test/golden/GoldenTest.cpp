//===- GoldenTest.cpp - Parity with transformers --------------------------===//
//
// Compiles the golden models and holds logits, loss, gradients and updates of
// ten optimizer steps against what transformers computes. README.md in this
// folder says what the files hold and derives the tolerances. On a GPU
// (--target=sm_90a) only bf16 and the models of its head sizes.
//
//===----------------------------------------------------------------------===//

#include "test/e2e/DrawnWeights.h"
#include "test/e2e/Model.h"

#include "qwen/Plan/Contiguous.h"
#include "runtime/checkpoint/Cast.h"
#include "runtime/trainer/Schedule.h"

#include <cmath>
#include <cstdlib>

using namespace qwen;
using namespace qwen::e2e;

namespace {

constexpr double layers = 4;
constexpr double float32Epsilon = 0x1p-23;
/// Two float32 results, each within 64 L eps of the truth.
constexpr double float32Tolerance = 2 * 64 * layers * float32Epsilon;
/// What the ratio to transformers' own bf16 error may be.
constexpr double bfloat16Ratio = 1.5;

double updateTolerance() { return 2 * std::sqrt(64 * layers * float32Epsilon); }

/// The files of one golden model.
class GoldenTest : public testing::TestWithParam<std::string> {
protected:
  StatusOr<SafetensorsFile> open(const std::string &file) const {
    return SafetensorsFile::open(
        sourcePath("test/golden/" + GetParam() + "/" + file + ".safetensors"));
  }
};

/// What only the CPU target has.
class GoldenFloat32Test : public GoldenTest {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenFloat32Test);

} // namespace

static PlanSpec specOf(const std::string &config, const std::string &dtype) {
  PlanSpec spec;
  spec.config = config;
  spec.target = testOptions().target;
  spec.dtype = dtype;
  spec.tokens = 256;
  spec.logits = true;
  return spec;
}

static std::vector<std::string> configs() {
  std::vector<std::string> names = {"tiny-hopper-tied", "tiny-hopper-untied"};
  if (!testOptions().isCuda())
    names.insert(names.end(), {"tiny-tied-1to1", "tiny-untied-1to3"});
  return names;
}

static std::vector<int32_t> integers(const SafetensorsFile &file,
                                     const std::string &name) {
  const StoredTensor *tensor = file.find(name);
  EXPECT_TRUE(tensor && tensor->dtype == FileDType::I32) << name;
  if (!tensor || tensor->dtype != FileDType::I32)
    return {};
  auto *values = reinterpret_cast<const int32_t *>(tensor->data.data());
  return {values, values + tensor->data.size() / sizeof(int32_t)};
}

static std::vector<float> floats(const SafetensorsFile &file,
                                 const std::string &name) {
  const StoredTensor *tensor = file.find(name);
  EXPECT_TRUE(tensor && isWeightDType(tensor->dtype))
      << file.path() << " has no " << name;
  if (!tensor || !isWeightDType(tensor->dtype))
    return {};
  size_t count = tensor->data.size() / size_t(fileDTypeBytes(tensor->dtype));
  std::vector<float> result(count);
  Buffer buffer{contiguousType(DType::F32, {int64_t(count)}), result.data()};
  loadElements(tensor->dtype, tensor->data, buffer);
  return result;
}

static double scalar(const SafetensorsFile &file, const std::string &name) {
  std::vector<float> values = floats(file, name);
  return values.size() == 1 ? double(values[0]) : std::nan("");
}

/// The decimal number that a float32 scalar was written from.
static double decimal(const SafetensorsFile &file, const std::string &name) {
  return std::strtod(
      fmt::format("{}", static_cast<float>(scalar(file, name))).c_str(),
      nullptr);
}

/// The golden pack, with padding behind it and empty documents in the middle
/// and at the end.
static Batch goldenPack(const SafetensorsFile &inputs, PackLimits limits) {
  Batch pack;
  pack.tokens = integers(inputs, "tokens");
  pack.labels = integers(inputs, "labels");
  pack.positions = integers(inputs, "positions");
  pack.cuSeqlens = integers(inputs, "cu_seqlens");
  pack.used = int64_t(pack.tokens.size());
  for (int32_t label : pack.labels)
    pack.supervised += label != ignoredLabel;
  auto size = size_t(limits.tokens);
  pack.tokens.resize(size, 0);
  pack.labels.resize(size, ignoredLabel);
  pack.positions.resize(size, 0);
  pack.cuSeqlens.insert(pack.cuSeqlens.begin() + 1, pack.cuSeqlens[1]);
  pack.cuSeqlens.resize(size_t(limits.documents) + 1, pack.cuSeqlens.back());
  return pack;
}

/// True for the tensors of which each layer has only a few elements.
static bool isVectorKind(const std::string &name) {
  return name.ends_with("A_log") || name.ends_with("dt_bias");
}

/// Tensors as the files name their errors: A_log and dt_bias joined over all
/// layers.
static Tensors joined(const Tensors &tensors) {
  Tensors result;
  for (const auto &[name, values] : tensors) {
    std::string key = name;
    for (const char *kind : {"A_log", "dt_bias"})
      if (name.ends_with(kind))
        key = kind;
    auto &target = result[key];
    target.insert(target.end(), values.begin(), values.end());
  }
  return result;
}

/// The tensors PREFIX.NAME of a file for all names of `like`.
static Tensors stored(const SafetensorsFile &file, const std::string &prefix,
                      const Tensors &like) {
  Tensors result;
  for (const auto &[name, values] : like)
    result[name] = floats(file, prefix + name);
  return result;
}

/// Ours in the form in which a file stores it: whole, or as a sketch.
static std::vector<float> inFormOf(const std::vector<float> &want,
                                   const std::vector<float> &got) {
  bool isSketch = want.size() == sketchWidth && got.size() > sketchWidth;
  return isSketch ? sketch(got) : got;
}

static Tensors inFormOf(const Tensors &want, const Tensors &got) {
  Tensors result;
  for (const auto &[name, values] : got)
    result[name] = inFormOf(want.at(name), values);
  return result;
}

/// `tolerance`, widened by what a sketch may make of it.
static double widened(double tolerance, const std::vector<float> &form) {
  return form.size() == sketchWidth ? tolerance * sketchSlack() : tolerance;
}

static std::vector<float> flat(const Tensors &tensors) {
  std::vector<float> result;
  for (const auto &[name, values] : tensors)
    result.insert(result.end(), values.begin(), values.end());
  return result;
}

static Tensors difference(const Tensors &a, const Tensors &b) {
  Tensors result = a;
  for (auto &[name, values] : result) {
    const std::vector<float> &other = b.at(name);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] -= other[i];
  }
  return result;
}

static double meanOfSupervised(const std::vector<float> &nll,
                               const Batch &pack) {
  double sum = 0;
  for (float value : nll)
    sum += double(value);
  return sum / double(pack.supervised);
}

/// Expects each of ours, in the form of the files, within a relative error;
/// A_log and dt_bias joined over all layers.
static void expectClose(const Tensors &got, const Tensors &want,
                        double tolerance) {
  Tensors wantJoined = joined(want);
  for (const auto &[name, values] : joined(got))
    EXPECT_LE(relativeError(values, wantJoined.at(name)),
              widened(tolerance, values))
        << name;
}

/// Expects every gradient of the golden files to be a parameter of the plan.
static void expectSameParameters(const SafetensorsFile &golden,
                                 const Tensors &ours) {
  for (const StoredTensor &tensor : golden.tensors())
    if (tensor.name.starts_with("gradient.")) {
      EXPECT_TRUE(ours.count(tensor.name.substr(9))) << tensor.name;
    }
}

TEST_P(GoldenFloat32Test, ForwardAndGradients) {
  ASSERT_OK_AND_TAKE(inputs, open("inputs"));
  ASSERT_OK_AND_TAKE(expected, open("expected_f32"));
  ASSERT_OK_AND_TAKE(expectedGradients, open("gradients_f32"));
  ASSERT_OK_AND_TAKE(model, goldenModel(specOf(GetParam(), "f32")));
  Batch pack = goldenPack(inputs, model.limits());

  std::vector<float> logits = model.logits(pack);
  logits.resize(size_t(pack.used * model.vocabulary()));
  std::vector<float> wantedLogits = floats(expected, "logits");
  EXPECT_LE(relativeError(inFormOf(wantedLogits, logits), wantedLogits),
            widened(float32Tolerance, wantedLogits));

  std::vector<float> nll =
      model.microStep(pack, static_cast<float>(1.0 / double(pack.supervised)));
  EXPECT_TRUE(sameBits(nll, model.evaluate(pack)));
  nll.resize(size_t(pack.used));
  EXPECT_LE(relativeError(nll, floats(expected, "nll")), float32Tolerance);
  EXPECT_NEAR(meanOfSupervised(nll, pack) / scalar(expected, "loss"), 1,
              float32Tolerance);

  Tensors gradients = model.gradients();
  expectSameParameters(expectedGradients, gradients);
  Tensors want = stored(expectedGradients, "gradient.", gradients);
  expectClose(inFormOf(want, gradients), want, float32Tolerance);
}

namespace {

/// The settings of the ten steps.
struct Hyper {
  AdamWOptions adamw;
  double rate = 0;
  int steps = 0;
};

/// What ten steps leave.
struct Trained {
  std::vector<float> nll; ///< of all steps, one after the other
  std::vector<double> losses, norms;
  Tensors updates; ///< final minus initial weights
};

} // namespace

static Hyper readHyper(const SafetensorsFile &file) {
  Hyper hyper;
  hyper.adamw.beta1 = decimal(file, "hyper.beta1");
  hyper.adamw.beta2 = decimal(file, "hyper.beta2");
  hyper.adamw.epsilon = decimal(file, "hyper.epsilon");
  hyper.adamw.weightDecay = decimal(file, "hyper.weight_decay");
  hyper.adamw.maxGradNorm = decimal(file, "hyper.max_norm");
  hyper.rate = decimal(file, "hyper.learning_rate");
  hyper.steps = int(scalar(file, "hyper.steps"));
  return hyper;
}

static Trained train(Model &model, const Batch &pack, const Hyper &hyper) {
  Trained result;
  Tensors initial = model.weights();
  auto scale = static_cast<float>(1.0 / double(pack.supervised));
  for (int step = 0; step < hyper.steps; ++step) {
    std::vector<float> nll = model.microStep(pack, scale);
    auto stats =
        model.update(makeHyper(hyper.adamw, hyper.rate, step + 1), step);
    nll.resize(size_t(pack.used));
    result.nll.insert(result.nll.end(), nll.begin(), nll.end());
    result.losses.push_back(meanOfSupervised(nll, pack));
    result.norms.push_back(double(stats[0]));
  }
  result.updates = difference(model.weights(), initial);
  return result;
}

/// The true updates, in the form that the file has: `update.NAME` as sketches,
/// or `weight.NAME` whole.
static Tensors storedUpdates(const SafetensorsFile &file,
                             const Tensors &initial) {
  for (const StoredTensor &tensor : file.tensors())
    if (tensor.name.starts_with("update."))
      return stored(file, "update.", initial);
  return difference(stored(file, "weight.", initial), initial);
}

TEST_P(GoldenFloat32Test, TenUpdates) {
  ASSERT_OK_AND_TAKE(inputs, open("inputs"));
  ASSERT_OK_AND_TAKE(expected, open("adamw_f32"));
  ASSERT_OK_AND_TAKE(model, goldenModel(specOf(GetParam(), "f32")));
  std::vector<float> losses = floats(expected, "loss");
  std::vector<float> norms = floats(expected, "gradient_norm");
  Tensors want = storedUpdates(expected, model.weights());

  Trained got =
      train(model, goldenPack(inputs, model.limits()), readHyper(expected));
  ASSERT_EQ(losses.size(), got.losses.size());
  ASSERT_EQ(norms.size(), got.norms.size());
  // A loss or norm moves with the weights: an error of the updates of the size
  // that is tolerated there is tolerated here.
  for (size_t step = 0; step < losses.size(); ++step) {
    EXPECT_NEAR(got.losses[step] / double(losses[step]), 1, updateTolerance())
        << "step " << step;
    EXPECT_NEAR(got.norms[step] / double(norms[step]), 1, updateTolerance())
        << "step " << step;
  }
  expectClose(inFormOf(want, got.updates), want, updateTolerance());
}

namespace {

/// Holds our errors against the float32 file to those of transformers, and
/// prints the largest ratio.
class ErrorRatios {
public:
  explicit ErrorRatios(const SafetensorsFile &errors) : errors(errors) {}
  ~ErrorRatios() {
    std::printf("largest ratio to the errors of transformers: %.2f (%s)\n",
                largest, largestName.c_str());
  }

  void expect(const std::vector<float> &got, const std::vector<float> &want,
              const std::string &error) {
    double ratio =
        relativeError(inFormOf(want, got), want) / scalar(errors, error);
    EXPECT_LE(ratio, widened(bfloat16Ratio, want)) << error;
    if (ratio > largest) {
      largest = ratio;
      largestName = error;
    }
  }

  /// All tensors of which a relative error alone means something.
  void expectEach(const Tensors &got, const Tensors &want,
                  const std::string &prefix) {
    for (const auto &[name, values] : got)
      if (!isVectorKind(name))
        expect(values, want.at(name), prefix + name);
  }

private:
  const SafetensorsFile &errors;
  double largest = 0;
  std::string largestName;
};

} // namespace

TEST_P(GoldenTest, Bfloat16ErrorOfThatOfTransformers) {
  ASSERT_OK_AND_TAKE(inputs, open("inputs"));
  ASSERT_OK_AND_TAKE(truth, open("expected_f32"));
  ASSERT_OK_AND_TAKE(trueGradients, open("gradients_f32"));
  ASSERT_OK_AND_TAKE(errors, open("expected_bf16"));
  ASSERT_OK_AND_TAKE(model, goldenModel(specOf(GetParam(), "bf16")));
  Batch pack = goldenPack(inputs, model.limits());
  ErrorRatios ratios(errors);

  std::vector<float> logits = model.logits(pack);
  logits.resize(size_t(pack.used * model.vocabulary()));
  ratios.expect(logits, floats(truth, "logits"), "error.logits");

  std::vector<float> nll =
      model.microStep(pack, static_cast<float>(1.0 / double(pack.supervised)));
  EXPECT_TRUE(sameBits(nll, model.evaluate(pack)));
  nll.resize(size_t(pack.used));
  ratios.expect(nll, floats(truth, "nll"), "error.nll");

  Tensors gradients = model.gradients();
  expectSameParameters(trueGradients, gradients);
  Tensors want = stored(trueGradients, "gradient.", gradients);
  ratios.expectEach(gradients, want, "error.gradient.");
  EXPECT_LE(relativeError(flat(inFormOf(want, gradients)), flat(want)),
            bfloat16Ratio * sketchSlack() * scalar(errors, "error.gradient"));
}

TEST_P(GoldenTest, Bfloat16ErrorOfTenUpdates) {
  ASSERT_OK_AND_TAKE(inputs, open("inputs"));
  ASSERT_OK_AND_TAKE(truth, open("adamw_f32"));
  ASSERT_OK_AND_TAKE(errors, open("adamw_bf16"));
  ASSERT_OK_AND_TAKE(model, goldenModel(specOf(GetParam(), "bf16")));
  Tensors want = storedUpdates(truth, model.weights());
  Trained got =
      train(model, goldenPack(inputs, model.limits()), readHyper(truth));
  ErrorRatios ratios(errors);
  ratios.expect(got.nll, floats(errors, "nll"), "error.nll");
  // Small tensors are joined: Adam gives an element whose gradient is less than
  // its error a whole step in either direction, and they have few of those.
  Tensors ours = inFormOf(want, got.updates);
  std::vector<float> small, wantedSmall;
  for (const auto &[name, values] : got.updates) {
    const std::vector<float> &wanted = want.at(name);
    if (values.size() >= smallTensor) {
      ratios.expect(ours.at(name), wanted, "error.update." + name);
      continue;
    }
    small.insert(small.end(), ours.at(name).begin(), ours.at(name).end());
    wantedSmall.insert(wantedSmall.end(), wanted.begin(), wanted.end());
  }
  EXPECT_LE(relativeError(small, wantedSmall),
            bfloat16Ratio * sketchSlack() *
                scalar(errors, "error.update.small"));
}

// The errors of a dozen elements say little on one pack.
TEST_P(GoldenTest, Bfloat16ErrorOfDecayParametersOverManyPacks) {
  ASSERT_OK_AND_TAKE(inputs, open("inputs"));
  ASSERT_OK_AND_TAKE(packs, open("packs_bf16"));
  ASSERT_OK_AND_TAKE(model, goldenModel(specOf(GetParam(), "bf16")));
  Batch pack = goldenPack(inputs, model.limits());
  std::vector<int32_t> tokens = integers(packs, "tokens");
  auto used = size_t(pack.used);
  ASSERT_EQ(tokens.size() % used, 0u);
  ASSERT_GT(tokens.size(), 0u);
  Tensors got;
  for (size_t first = 0; first < tokens.size(); first += used) {
    for (size_t t = 0; t < used; ++t) {
      pack.tokens[t] = tokens[first + t];
      // The labels follow; which tokens have one stays.
      if (pack.labels[t] != ignoredLabel)
        pack.labels[t] = tokens[first + t + 1];
    }
    model.beginStep();
    model.microStep(pack, static_cast<float>(1.0 / double(pack.supervised)));
    for (const auto &[name, values] : model.gradients())
      if (isVectorKind(name))
        got[name].insert(got[name].end(), values.begin(), values.end());
  }
  Tensors want = joined(stored(packs, "gradient.", got));
  for (const auto &[kind, values] : joined(got))
    EXPECT_LE(relativeError(values, want.at(kind)),
              bfloat16Ratio * scalar(packs, "error.gradient." + kind))
        << kind;
}

static std::string nameOf(const testing::TestParamInfo<std::string> &info) {
  return testName(info.param);
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest, testing::ValuesIn(configs()),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Models, GoldenFloat32Test,
                         testing::ValuesIn(testOptions().isCuda()
                                               ? std::vector<std::string>()
                                               : configs()),
                         nameOf);

int main(int argc, char **argv) {
  return runTests(argc, argv, [] {
    std::vector<PlanSpec> specs;
    for (const std::string &config : configs())
      specs.push_back(specOf(config, "bf16"));
    return specs;
  });
}
