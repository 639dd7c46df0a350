//===- GradCheck.cpp - Gradients against central differences --------------===//

#include "GradCheck.h"

#include "Interpreter.h"

#include "dialects/Qwen/Qwen.h"
#include "lib/Autodiff/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

using namespace mlir;

namespace qwen::gradcheck {

namespace {

/// Uniform numbers that are the same with every standard library.
class Uniform {
public:
  double operator()(Range range) {
    double unit = static_cast<double>(engine() >> 11) * 0x1p-53;
    return range.low + unit * (range.high - range.low);
  }

private:
  std::mt19937_64 engine{20};
};

/// The inputs of one program, by position.
std::vector<Tensor> makeInputs(func::FuncOp func, const GradientCase &test,
                               Uniform &uniform) {
  std::vector<Tensor> inputs;
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    auto type = cast<RankedTensorType>(func.getArgumentTypes()[i]);
    Tensor tensor(type.getShape().vec());
    auto name = func.getArgAttrOfType<StringAttr>(i, "qwen.input");
    EXPECT_TRUE(name) << "argument " << i << " has no name";
    if (name.getValue() == "loss_scale") {
      tensor.values = {0.75};
    } else if (isa<FloatType>(type.getElementType())) {
      for (double &value : tensor.values)
        value = uniform({0.5, 1.5});
    } else {
      tensor.values = test.inputs.at(name.getValue().str());
      EXPECT_EQ(tensor.size(), type.getNumElements());
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

/// The loss and the sum of its terms' magnitudes.
struct Loss {
  double value = 0.0, magnitude = 0.0;
};

/// Runs one case; the steps of the check share its state.
class Check {
public:
  Check(ModuleOp module, const GradientCase &test)
      : module(module), test(test), interpreter(module) {}

  void run() {
    auto microStep = module.lookupSymbol<func::FuncOp>("micro_step");
    std::vector<Tensor> inputs = makeInputs(microStep, test, uniform);
    for (auto &[name, tensor] : interpreter.parameters) {
      auto range = test.ranges.find(name);
      for (double &value : tensor.values)
        value = uniform(range == test.ranges.end() ? Range() : range->second);
    }
    ASSERT_TRUE(succeeded(interpreter.run("micro_step", inputs)));
    checkFirstMicroStep(inputs);
    lossScale = inputs.back().at(0);
    inputs.pop_back();
    evalInputs = std::move(inputs);
    for (auto &[name, gradient] : interpreter.gradients)
      checkParameter(name, gradient);
  }

private:
  /// The first micro-step makes the same of gradients that hold anything.
  void checkFirstMicroStep(const std::vector<Tensor> &inputs) {
    std::map<std::string, Tensor> added = interpreter.gradients;
    module.walk([&](AccumulateGradOp op) {
      for (auto name : op.getParameters().getAsRange<FlatSymbolRefAttr>())
        for (double &value :
             interpreter.gradients.at(name.getValue().str()).values)
          value = std::numeric_limits<double>::quiet_NaN();
    });
    ASSERT_TRUE(succeeded(interpreter.run("first_micro_step", inputs)));
    for (auto &[name, gradient] : interpreter.gradients)
      EXPECT_EQ(gradient.values, added.at(name).values) << name;
  }

  Loss loss() {
    FailureOr<std::vector<Tensor>> results =
        interpreter.run("eval", evalInputs);
    EXPECT_TRUE(succeeded(results));
    Loss sum;
    if (failed(results))
      return sum;
    for (double value : results->front().values) {
      sum.value += lossScale * value;
      sum.magnitude += std::fabs(lossScale * value);
    }
    return sum;
  }

  /// The slope along `direction`, and a bound of its error: the step from the
  /// second-order to the fourth-order formula bounds what the latter leaves
  /// out; the rest is rounding of the two losses.
  struct Slope {
    double value, error;
  };
  Slope slope(Tensor &parameter, const std::vector<double> &direction) {
    constexpr double step = 1e-4;
    std::vector<double> saved = parameter.values;
    double magnitude = 0.0;
    auto lossAt = [&](double distance) {
      for (size_t i = 0; i < saved.size(); ++i)
        parameter.values[i] = saved[i] + distance * direction[i];
      Loss result = loss();
      magnitude = std::max(magnitude, result.magnitude);
      return result.value;
    };
    double narrow = (lossAt(step) - lossAt(-step)) / (2 * step);
    double wide = (lossAt(2 * step) - lossAt(-2 * step)) / (4 * step);
    parameter.values = saved;
    double best = narrow + (narrow - wide) / 3;
    double rounding = std::numeric_limits<double>::epsilon() *
                      test.reductionLength * (1.0 + magnitude) / step;
    return {best, std::fabs(best - narrow) + rounding};
  }

  void checkParameter(const std::string &name, const Tensor &gradient) {
    bool independent = llvm::is_contained(test.independent, name);
    double largest = 0.0;
    for (double value : gradient.values)
      largest = std::max(largest, std::fabs(value));
    if (independent)
      EXPECT_EQ(largest, 0.0) << "gradient of " << name;
    else
      EXPECT_GT(largest, 0.0) << "gradient of " << name << " is all zero";

    Tensor &parameter = interpreter.parameters.at(name);
    int64_t count =
        std::min(test.elements.value_or(gradient.size()), gradient.size());
    for (int64_t n = 0; n < count; ++n) {
      int64_t i = n * gradient.size() / count;
      std::vector<double> direction(gradient.size(), 0.0);
      direction[i] = 1.0;
      Slope expected = slope(parameter, direction);
      EXPECT_NEAR(gradient.at(i), expected.value, expected.error)
          << "gradient of " << name << " at element " << i;
    }
    if (count < gradient.size())
      checkDirection(name, parameter, gradient);
  }

  /// One random direction, so that no element goes unseen.
  void checkDirection(const std::string &name, Tensor &parameter,
                      const Tensor &gradient) {
    std::vector<double> direction;
    double along = 0.0, norm = 0.0;
    for (int64_t i = 0; i < gradient.size(); ++i) {
      direction.push_back(uniform({-1.0, 1.0}));
      norm += direction[i] * direction[i];
    }
    for (int64_t i = 0; i < gradient.size(); ++i) {
      direction[i] /= std::sqrt(norm);
      along += direction[i] * gradient.at(i);
    }
    Slope expected = slope(parameter, direction);
    EXPECT_NEAR(along, expected.value, expected.error)
        << "gradient of " << name << " along a random direction";
  }

  ModuleOp module;
  const GradientCase &test;
  Interpreter interpreter;
  Uniform uniform;
  std::vector<Tensor> evalInputs;
  double lossScale = 1.0;
};

} // namespace

std::unique_ptr<MLIRContext> makeContext() {
  DialectRegistry registry;
  registry.insert<arith::ArithDialect, func::FuncDialect, math::MathDialect,
                  QwenDialect>();
  registerArithDerivatives(registry);
  auto context =
      std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  return context;
}

void checkGradients(const GradientCase &test) {
  std::unique_ptr<MLIRContext> context = makeContext();
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(test.module, context.get());
  ASSERT_TRUE(module);
  ASSERT_TRUE(succeeded(differentiate(*module)));
  compareGradients(*module, test);
}

LogicalResult differentiate(ModuleOp module) {
  PassManager passes(module.getContext());
  passes.addPass(createMergeProjectionsPass());
  passes.addPass(createAutodiffPass());
  passes.addPass(createFirstMicroStepPass());
  return passes.run(module);
}

void compareGradients(ModuleOp module, const GradientCase &test) {
  Check(module, test).run();
}

} // namespace qwen::gradcheck
