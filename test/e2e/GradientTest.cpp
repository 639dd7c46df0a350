//===- GradientTest.cpp - The whole step against differences --------------===//
//
// Compiles models in float64 and holds the gradient of every parameter, as
// first_micro_step leaves it, against central differences of the loss that
// program eval computes. One value-head group of 1, 2 and 3 each.
//
//===----------------------------------------------------------------------===//

#include "Harness.h"
#include "Packs.h"

#include "qwen/Support/Tolerance.h"
#include "runtime/executor/Executor.h"

#include <cmath>
#include <cstring>

using namespace qwen;
using namespace qwen::e2e;

namespace {

/// A float64 plan with random weights and one pack.
class Float64Model {
public:
  explicit Float64Model(std::unique_ptr<Executor> made)
      : executor(std::move(made)) {
    eval = *executor->plan().findProgram("eval");
    firstMicroStep = *executor->plan().findProgram("first_micro_step");
  }

  std::span<const PlanParameter> parameters() const {
    return executor->plan().parameters();
  }
  std::span<double> value(size_t i) const {
    return all(executor->parameter(int(i)));
  }
  std::span<double> gradient(size_t i) const {
    return all(executor->gradient(int(i)));
  }

  /// Weights of a size that no norm or gate saturates, A_log and dt_bias as a
  /// model starts with.
  void drawWeights(Generator &generator) {
    for (size_t i = 0; i < parameters().size(); ++i) {
      const BufferType &type = parameters()[i].type;
      double scale = type.rank == 1
                         ? 0.25
                         : 1 / std::sqrt(double(type.dim(type.rank - 1)));
      for (double &element : value(i))
        element = 2 * scale * uniform(generator);
    }
  }

  void setPack(const Batch &pack) {
    auto set = [&](const char *name, const void *values, size_t bytes) {
      std::optional<Buffer> input = executor->input(name);
      ASSERT_TRUE(input) << name;
      ASSERT_EQ(size_t(input->bytes()), bytes) << name;
      std::memcpy(input->data, values, bytes);
    };
    set("tokens", pack.tokens.data(), pack.tokens.size() * 4);
    set("labels", pack.labels.data(), pack.labels.size() * 4);
    set("positions", pack.positions.data(), pack.positions.size() * 4);
    set("cu_seqlens", pack.cuSeqlens.data(), pack.cuSeqlens.size() * 4);
    scale = 1 / double(pack.supervised);
    set("loss_scale", &scale, sizeof(scale));
  }

  /// Mean loss.
  double loss() {
    run(eval);
    double sum = 0;
    for (double value : all(*executor->output(eval, "nll")))
      sum += value;
    return sum * scale;
  }
  void run() { run(firstMicroStep); }

  /// A number in (-1, 1).
  static double uniform(Generator &generator) {
    return (double(generator()) - 0x1p31 + 0.5) * 0x1p-31;
  }

private:
  void run(int program) {
    Status status = executor->run(program);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  static std::span<double> all(const Buffer &buffer) {
    EXPECT_EQ(buffer.dtype, DType::F64);
    return {buffer.as<double>(), size_t(buffer.elements())};
  }

  std::unique_ptr<Executor> executor;
  int eval = -1, firstMicroStep = -1;
  double scale = 0;
};

class GradientTest : public testing::TestWithParam<std::string> {};

} // namespace

static StatusOr<Float64Model> build(const std::string &config) {
  PlanSpec spec;
  spec.config = config;
  spec.dtype = "f64";
  spec.tokens = 96;
  spec.maxDocuments = 6;
  QWEN_ASSIGN_OR_RETURN(Plan plan, compilePlan(spec));
  ExecutorOptions options;
  options.hugePages = false;
  options.poison = true;
  QWEN_ASSIGN_OR_RETURN(auto executor, Executor::create(plan, options));
  return Float64Model(std::move(executor));
}

/// d loss / d h at h = 0 of weights + h direction, by a central difference.
static double difference(Float64Model &model, size_t parameter,
                         const std::vector<double> &direction, double step) {
  std::span<double> value = model.value(parameter);
  std::vector<double> kept(value.begin(), value.end());
  double losses[2];
  for (int side : {0, 1}) {
    for (size_t e = 0; e < value.size(); ++e)
      value[e] = kept[e] + (side ? step : -step) * direction[e];
    losses[side] = model.loss();
  }
  std::copy(kept.begin(), kept.end(), value.begin());
  return (losses[1] - losses[0]) / (2 * step);
}

/// A direction of length one that follows the gradient in part, so that the
/// derivative along it is of the gradient's size.
static std::vector<double> drawDirection(std::span<const double> gradient,
                                         Generator &generator) {
  double size = 0, length = 0;
  for (double element : gradient)
    size += element * element;
  EXPECT_GT(size, 0);
  std::vector<double> direction;
  for (double element : gradient) {
    direction.push_back(element / std::sqrt(size) +
                        Float64Model::uniform(generator) /
                            std::sqrt(double(gradient.size())));
    length += direction.back() * direction.back();
  }
  for (double &element : direction)
    element /= std::sqrt(length);
  return direction;
}

TEST_P(GradientTest, EveryParameterAlongARandomDirection) {
  ASSERT_OK_AND_TAKE(model, build(GetParam()));
  Generator generator(99);
  model.drawWeights(generator);
  std::vector<TestDocument> documents;
  for (int length : {3, 66, 0, 1, 17})
    documents.push_back(randomDocument(generator, length, 256, 80));
  model.setPack(makePack(documents, {96, 6}));
  model.run();

  // The longest sum is over the largest vocabulary.
  double rounding = differenceTolerance(model.loss(), 2048);
  double step = differenceStep();
  for (size_t i = 0; i < model.parameters().size(); ++i) {
    SCOPED_TRACE(model.parameters()[i].name);
    std::span<double> gradient = model.gradient(i);
    std::vector<double> direction = drawDirection(gradient, generator);
    double derivative = 0;
    for (size_t e = 0; e < direction.size(); ++e)
      derivative += direction[e] * gradient[e];
    // Third derivatives of the first layers are large. The truncation error is
    // quadratic in the step: two differences show its size, which is a third of
    // their distance, and cancel it.
    double wide = difference(model, i, direction, 2 * step);
    double narrow = difference(model, i, direction, step);
    EXPECT_NEAR((4 * narrow - wide) / 3, derivative,
                std::fabs(wide - narrow) / 3 + 2 * rounding);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GradientTest,
                         testing::Values("tiny-tied-1to1", "tiny",
                                         "tiny-untied-1to3"),
                         [](const auto &info) {
                           std::string name = info.param;
                           for (char &c : name)
                             c = c == '-' ? '_' : c;
                           return name;
                         });
