//===- GoldenGraphTest.cpp - The graph in double against transformers -----===//
//
// Importer and autodiff alone, without lowering or runtime: the graph's loss
// and gradients in double are the truth that transformers' float32 results in
// test/golden approximate.
//
//===----------------------------------------------------------------------===//

#include "GradCheck.h"
#include "Interpreter.h"

#include "models/Import.h"
#include "runtime/checkpoint/Safetensors.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace mlir;

namespace qwen::gradcheck {

namespace {

/// The bound of test/golden/README.md on transformers' relative error: 64 float
/// roundings a layer, four layers.
constexpr double tolerance = 64 * 4 * 0x1p-23;

Tensor toTensor(const StoredTensor &stored) {
  Tensor tensor(stored.shape);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const std::byte *at = stored.data.data() + i * fileDTypeBytes(stored.dtype);
    if (stored.dtype == FileDType::BF16) {
      uint16_t bits;
      std::memcpy(&bits, at, sizeof bits);
      tensor.at(i) = std::bit_cast<float>(uint32_t(bits) << 16);
    } else if (stored.dtype == FileDType::F32) {
      float value;
      std::memcpy(&value, at, sizeof value);
      tensor.at(i) = value;
    } else {
      EXPECT_EQ(stored.dtype, FileDType::I32) << stored.name;
      int32_t value;
      std::memcpy(&value, at, sizeof value);
      tensor.at(i) = value;
    }
  }
  return tensor;
}

/// Adds all tensors of a file to `tensors`.
void readFile(const std::string &path, std::map<std::string, Tensor> &tensors) {
  StatusOr<SafetensorsFile> file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  for (const StoredTensor &stored : file->tensors())
    tensors[stored.name] = toTensor(stored);
}

/// |got - expected| / |expected| over pairs of tensors.
class RelativeError {
public:
  void add(const Tensor &got, const Tensor &expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (int64_t i = 0; i < got.size(); ++i) {
      double difference = got.at(i) - expected.at(i);
      error += difference * difference;
      norm += expected.at(i) * expected.at(i);
    }
  }
  double value() const { return std::sqrt(error / norm); }

private:
  double error = 0.0, norm = 0.0;
};

class GoldenGraphTest : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    folder = std::string(QWEN_GOLDEN_DIR) + "/" + GetParam();
    readFile(folder + "/inputs.safetensors", inputs);
    readFile(folder + "/expected_f32.safetensors", expected);
    readFile(folder + "/gradients_f32.safetensors", expected);
    for (const auto &entry :
         std::filesystem::directory_iterator(folder + "/checkpoint"))
      if (entry.path().extension() == ".safetensors")
        readFile(entry.path().string(), weights);
    std::ifstream file(folder + "/checkpoint/config.json");
    std::stringstream text;
    text << file.rdbuf();
    StatusOr<ModelConfig> config = parseConfig(text.str());
    ASSERT_TRUE(config.ok()) << config.status().message();
    ImportOptions options;
    options.tokens = inputs["tokens"].size();
    options.maxDocuments = inputs["cu_seqlens"].size() - 1;
    options.dtype = "f64";
    StatusOr<OwningOpRef<ModuleOp>> imported =
        importModel(*context, *config, options);
    ASSERT_TRUE(imported.ok()) << imported.status().message();
    module = std::move(*imported);
    ASSERT_TRUE(succeeded(differentiate(*module)));
  }

  std::unique_ptr<MLIRContext> context = makeContext();
  std::string folder;
  std::map<std::string, Tensor> inputs, expected, weights;
  OwningOpRef<ModuleOp> module;
};

} // namespace

TEST_P(GoldenGraphTest, LossAndGradientsMatchTransformers) {
  Interpreter interpreter(*module);
  for (auto &[name, parameter] : interpreter.parameters) {
    ASSERT_TRUE(weights.contains(name)) << name;
    ASSERT_EQ(weights[name].shape, parameter.shape) << name;
    parameter = weights[name];
  }
  double supervised = 0;
  for (double label : inputs["labels"].values)
    supervised += label != -100.0;
  Tensor lossScale({}, 1.0 / supervised);
  FailureOr<std::vector<Tensor>> results = interpreter.run(
      "micro_step", {inputs["tokens"], inputs["labels"], inputs["positions"],
                     inputs["cu_seqlens"], lossScale});
  ASSERT_TRUE(succeeded(results));
  RelativeError nll;
  nll.add(results->front(), expected["nll"]);
  EXPECT_LT(nll.value(), tolerance);

  // A_log and dt_bias have a few elements that may cancel: joined over layers.
  std::map<std::string, RelativeError> errors;
  for (auto &[name, gradient] : interpreter.gradients) {
    ASSERT_TRUE(expected.contains("gradient." + name)) << name;
    std::string key = name;
    for (const char *kind : {"A_log", "dt_bias"})
      if (name.ends_with(kind))
        key = kind;
    errors[key].add(gradient, expected["gradient." + name]);
  }
  for (auto &[name, error] : errors)
    EXPECT_LT(error.value(), tolerance) << "gradient of " << name;
}

INSTANTIATE_TEST_SUITE_P(Golden, GoldenGraphTest,
                         testing::Values("tiny-tied-1to1", "tiny-untied-1to3"));

} // namespace qwen::gradcheck
