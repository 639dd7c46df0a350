//===- ElementwiseCases.cpp - Gradient checks of elementwise ops ----------===//

#include "Cases.h"

#include <fmt/core.h>

namespace qwen::gradcheck {

/// y = op(a), weighted by an input.
static GradientCase unary(const std::string &op, Range range) {
  GradientCase test;
  test.name = op;
  test.module = fmt::format(R"(
    qwen.parameter @a : tensor<2x3xf64> {{init = "normal"}}
    func.func @forward(%c: tensor<2x3xf64> {{qwen.input = "c"}}) -> (tensor<2x3xf64> {{qwen.output = "nll"}}) {{
      %a = qwen.get_parameter [@a] : tensor<2x3xf64>
      %y = {} %a : tensor<2x3xf64>
      %z = arith.mulf %y, %c : tensor<2x3xf64>
      return %z : tensor<2x3xf64>
    }})",
                            op);
  test.ranges["a"] = range;
  return test;
}

/// y = op(a, b), weighted by an input.
static GradientCase binary(const std::string &op, Range right) {
  GradientCase test;
  test.name = op;
  test.module = fmt::format(R"(
    qwen.parameter @a : tensor<2x3xf64> {{init = "normal"}}
    qwen.parameter @b : tensor<2x3xf64> {{init = "normal"}}
    func.func @forward(%c: tensor<2x3xf64> {{qwen.input = "c"}}) -> (tensor<2x3xf64> {{qwen.output = "nll"}}) {{
      %a = qwen.get_parameter [@a] : tensor<2x3xf64>
      %b = qwen.get_parameter [@b] : tensor<2x3xf64>
      %y = {} %a, %b : tensor<2x3xf64>
      %z = arith.mulf %y, %c : tensor<2x3xf64>
      return %z : tensor<2x3xf64>
    }})",
                            op);
  test.ranges["b"] = right;
  return test;
}

/// Conversions: the interpreter rounds nothing, so the slope is 1.
static GradientCase conversions() {
  GradientCase test;
  test.name = "conversions";
  test.module = R"(
    qwen.parameter @a : tensor<5xf64> {init = "normal"}
    func.func @forward(%c: tensor<5xf64> {qwen.input = "c"}) -> (tensor<5xf64> {qwen.output = "nll"}) {
      %a = qwen.get_parameter [@a] : tensor<5xf64>
      %s = math.sin %a : tensor<5xf64>
      %n = arith.truncf %s : tensor<5xf64> to tensor<5xf32>
      %m = arith.mulf %n, %n : tensor<5xf32>
      %w = arith.extf %m : tensor<5xf32> to tensor<5xf64>
      %z = arith.mulf %w, %c : tensor<5xf64>
      return %z : tensor<5xf64>
    })";
  return test;
}

/// Both branches of a selection, by a condition that does not vary.
static GradientCase selection() {
  GradientCase test;
  test.name = "arith.select";
  test.module = R"(
    qwen.parameter @a : tensor<6xf64> {init = "normal"}
    qwen.parameter @b : tensor<6xf64> {init = "normal"}
    func.func @forward(%c: tensor<6xf64> {qwen.input = "c"}, %d: tensor<6xf64> {qwen.input = "d"}) -> (tensor<6xf64> {qwen.output = "nll"}) {
      %a = qwen.get_parameter [@a] : tensor<6xf64>
      %b = qwen.get_parameter [@b] : tensor<6xf64>
      %p = arith.cmpf ogt, %c, %d : tensor<6xf64>
      %y = arith.select %p, %a, %b : tensor<6xi1>, tensor<6xf64>
      %z = arith.mulf %y, %c : tensor<6xf64>
      return %z : tensor<6xf64>
    })";
  return test;
}

std::vector<GradientCase> elementwiseCases() {
  std::vector<GradientCase> cases;
  Range any{-2.0, 2.0}, positive{0.3, 2.0};
  for (const char *op :
       {"arith.negf", "math.exp", "math.expm1", "math.tanh", "math.sin",
        "math.cos", "math.erf", "math.absf", "qwen.sigmoid", "qwen.softplus"})
    cases.push_back(unary(op, any));
  for (const char *op : {"math.log", "math.log1p", "math.sqrt", "math.rsqrt"})
    cases.push_back(unary(op, positive));
  for (const char *op : {"arith.addf", "arith.subf", "arith.mulf",
                         "arith.maximumf", "arith.minimumf"})
    cases.push_back(binary(op, any));
  cases.push_back(binary("arith.divf", positive));
  // Where exp(-x) or exp(x) alone would overflow or vanish.
  for (auto [name, range] : {std::pair("large", Range{22.0, 36.0}),
                             std::pair("huge", Range{500.0, 700.0}),
                             std::pair("small", Range{-700.0, -25.0})}) {
    for (const char *op : {"qwen.sigmoid", "qwen.softplus"}) {
      GradientCase test = unary(op, range);
      test.name = fmt::format("{}.{}", op, name);
      if (test.name == "qwen.sigmoid.huge")
        test.independent = {"a"};
      cases.push_back(test);
    }
  }
  cases.push_back(conversions());
  cases.push_back(selection());
  return cases;
}

} // namespace qwen::gradcheck
