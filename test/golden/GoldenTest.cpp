//===- GoldenTest.cpp - Parity with transformers --------------------------===//
//
// Compiles the two golden models and holds logits, loss, gradients and weights
// after ten optimizer steps against what transformers computes. README.md in
// this folder says what the files hold and derives the tolerances.
//
//===----------------------------------------------------------------------===//

#include "test/e2e/Model.h"

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

  PlanSpec spec(const std::string &dtype) const {
    PlanSpec spec;
    spec.config = GetParam();
    spec.dtype = dtype;
    spec.logits = true;
    return spec;
  }
};

} // namespace

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
  Buffer buffer;
  buffer.rank = 1;
  buffer.shape[0] = int64_t(count);
  buffer.strides[0] = 1;
  buffer.data = result.data();
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

/// Expects every gradient of the golden files to be a parameter of the plan.
static void expectSameParameters(const SafetensorsFile &golden,
                                 const Tensors &ours) {
  for (const StoredTensor &tensor : golden.tensors())
    if (tensor.name.starts_with("gradient.")) {
      EXPECT_TRUE(ours.count(tensor.name.substr(9))) << tensor.name;
    }
}

TEST_P(GoldenTest, Float32ForwardAndGradients) {
  ASSERT_OK_AND_TAKE(inputs, open("inputs"));
  ASSERT_OK_AND_TAKE(expected, open("expected_f32"));
  ASSERT_OK_AND_TAKE(expectedGradients, open("gradients_f32"));
  ASSERT_OK_AND_TAKE(model, goldenModel(spec("f32")));
  Batch pack = goldenPack(inputs, model.limits());

  std::vector<float> logits = model.logits(pack);
  logits.resize(size_t(pack.used * model.vocabulary()));
  EXPECT_LE(relativeError(logits, floats(expected, "logits")),
            float32Tolerance);

  std::vector<float> nll =
      model.microStep(pack, static_cast<float>(1.0 / double(pack.supervised)));
  EXPECT_TRUE(sameBits(nll, model.evaluate(pack)));
  nll.resize(size_t(pack.used));
  EXPECT_LE(relativeError(nll, floats(expected, "nll")), float32Tolerance);
  EXPECT_NEAR(meanOfSupervised(nll, pack) / scalar(expected, "loss"), 1,
              float32Tolerance);

  Tensors gradients = model.gradients();
  expectSameParameters(expectedGradients, gradients);
  Tensors want = joined(stored(expectedGradients, "gradient.", gradients));
  for (const auto &[name, values] : joined(gradients))
    EXPECT_LE(relativeError(values, want.at(name)), float32Tolerance) << name;
}

TEST_P(GoldenTest, Float32TenUpdates) {
  ASSERT_OK_AND_TAKE(inputs, open("inputs"));
  ASSERT_OK_AND_TAKE(expected, open("adamw_f32"));
  ASSERT_OK_AND_TAKE(model, goldenModel(spec("f32")));
  Batch pack = goldenPack(inputs, model.limits());
  AdamWOptions adamw;
  adamw.beta1 = decimal(expected, "hyper.beta1");
  adamw.beta2 = decimal(expected, "hyper.beta2");
  adamw.epsilon = decimal(expected, "hyper.epsilon");
  adamw.weightDecay = decimal(expected, "hyper.weight_decay");
  adamw.maxGradNorm = decimal(expected, "hyper.max_norm");
  double rate = decimal(expected, "hyper.learning_rate");
  auto steps = int(scalar(expected, "hyper.steps"));
  std::vector<float> losses = floats(expected, "loss");
  std::vector<float> norms = floats(expected, "gradient_norm");
  ASSERT_EQ(losses.size(), size_t(steps));
  ASSERT_EQ(norms.size(), size_t(steps));

  Tensors initial = model.weights();
  for (int step = 0; step < steps; ++step) {
    std::vector<float> nll = model.microStep(
        pack, static_cast<float>(1.0 / double(pack.supervised)));
    auto stats = model.update(makeHyper(adamw, rate, step + 1), step);
    // A loss or norm moves with the weights: an error of the updates of the
    // size that is tolerated there is tolerated here.
    EXPECT_NEAR(meanOfSupervised(nll, pack) / double(losses[size_t(step)]), 1,
                updateTolerance())
        << "step " << step;
    EXPECT_NEAR(double(stats[0]) / double(norms[size_t(step)]), 1,
                updateTolerance())
        << "step " << step;
  }

  Tensors updates = difference(model.weights(), initial);
  Tensors want =
      joined(difference(stored(expected, "weight.", updates), initial));
  for (const auto &[name, values] : joined(updates))
    EXPECT_LE(relativeError(values, want.at(name)), updateTolerance()) << name;
}

TEST_P(GoldenTest, Bfloat16ErrorOfThatOfTransformers) {
  ASSERT_OK_AND_TAKE(inputs, open("inputs"));
  ASSERT_OK_AND_TAKE(truth, open("expected_f32"));
  ASSERT_OK_AND_TAKE(trueGradients, open("gradients_f32"));
  ASSERT_OK_AND_TAKE(errors, open("expected_bf16"));
  ASSERT_OK_AND_TAKE(model, goldenModel(spec("bf16")));
  Batch pack = goldenPack(inputs, model.limits());
  auto expectWithin = [&](const std::vector<float> &got,
                          const std::vector<float> &want,
                          const std::string &error) {
    EXPECT_LE(relativeError(got, want), bfloat16Ratio * scalar(errors, error))
        << error;
  };

  std::vector<float> logits = model.logits(pack);
  logits.resize(size_t(pack.used * model.vocabulary()));
  expectWithin(logits, floats(truth, "logits"), "error.logits");

  std::vector<float> nll =
      model.microStep(pack, static_cast<float>(1.0 / double(pack.supervised)));
  EXPECT_TRUE(sameBits(nll, model.evaluate(pack)));
  nll.resize(size_t(pack.used));
  expectWithin(nll, floats(truth, "nll"), "error.nll");

  Tensors gradients = model.gradients();
  Tensors want = stored(trueGradients, "gradient.", gradients);
  expectWithin(flat(gradients), flat(want), "error.gradient");
  Tensors wantJoined = joined(want);
  for (const auto &[name, values] : joined(gradients))
    if (!isVectorKind(name))
      expectWithin(values, wantJoined.at(name), "error.gradient." + name);
}

// The errors of a dozen elements say little on one pack.
TEST_P(GoldenTest, Bfloat16ErrorOfDecayParametersOverManyPacks) {
  ASSERT_OK_AND_TAKE(inputs, open("inputs"));
  ASSERT_OK_AND_TAKE(packs, open("packs_bf16"));
  ASSERT_OK_AND_TAKE(model, goldenModel(spec("bf16")));
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
    model.zeroGradients();
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

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest,
                         testing::Values("tiny-tied-1to1", "tiny-untied-1to3"),
                         [](const auto &info) {
                           std::string name = info.param;
                           for (char &c : name)
                             c = c == '-' ? '_' : c;
                           return name;
                         });
