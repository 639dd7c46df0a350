//===- GraphCases.cpp - Checks of sums, calls and residuals ---------------===//

#include "Cases.h"

namespace qwen::gradcheck {

namespace {

/// A value with four uses, one of them twice in one op.
const char *const severalUses = R"(
  qwen.parameter @a : tensor<2x3xf64> {init = "normal"}
  func.func @forward() -> (tensor<2x3xf64> {qwen.output = "nll"}) {
    %a = qwen.get_parameter [@a] : tensor<2x3xf64>
    %0 = arith.mulf %a, %a : tensor<2x3xf64>
    %1 = math.sin %0 : tensor<2x3xf64>
    %2 = arith.addf %0, %1 : tensor<2x3xf64>
    %3 = arith.mulf %2, %0 : tensor<2x3xf64>
    return %3 : tensor<2x3xf64>
  })";

/// One function called twice, in a chain, and once more inside another; one
/// parameter goes to two calls; two linears of one input.
const char *const calls = R"(
  qwen.parameter @x : tensor<3x4xf64> {init = "normal"}
  qwen.parameter @n : tensor<4xf64> {init = "normal"}
  qwen.parameter @g : tensor<5x4xf64> {init = "normal"}
  qwen.parameter @u : tensor<5x4xf64> {init = "normal"}
  qwen.parameter @d : tensor<4x5xf64> {init = "normal"}
  func.func private @mlp(%x: tensor<3x4xf64>, %n: tensor<4xf64>, %g: tensor<5x4xf64>, %u: tensor<5x4xf64>, %d: tensor<4x5xf64>) -> tensor<3x4xf64> {
    %h = qwen.rms_norm %x, %n {eps = 1.0e-2, offset = 1.0} : tensor<3x4xf64>, tensor<4xf64> -> tensor<3x4xf64>
    %a = qwen.linear %h, %g : tensor<3x4xf64>, tensor<5x4xf64> -> tensor<3x5xf64>
    %b = qwen.linear %h, %u : tensor<3x4xf64>, tensor<5x4xf64> -> tensor<3x5xf64>
    %s = qwen.sigmoid %a : tensor<3x5xf64>
    %t = arith.mulf %a, %s : tensor<3x5xf64>
    %p = arith.mulf %t, %b : tensor<3x5xf64>
    %o = qwen.linear %p, %d : tensor<3x5xf64>, tensor<4x5xf64> -> tensor<3x4xf64>
    %r = arith.addf %x, %o : tensor<3x4xf64>
    return %r : tensor<3x4xf64>
  }
  func.func private @block(%x: tensor<3x4xf64>, %n: tensor<4xf64>, %g: tensor<5x4xf64>, %u: tensor<5x4xf64>, %d: tensor<4x5xf64>) -> tensor<3x4xf64> {
    %0 = call @mlp(%x, %n, %g, %u, %d) : (tensor<3x4xf64>, tensor<4xf64>, tensor<5x4xf64>, tensor<5x4xf64>, tensor<4x5xf64>) -> tensor<3x4xf64>
    %1 = arith.mulf %0, %x : tensor<3x4xf64>
    return %1 : tensor<3x4xf64>
  }
  func.func @forward(%c: tensor<3x4xf64> {qwen.input = "c"}) -> (tensor<3x4xf64> {qwen.output = "nll"}) {
    %x = qwen.get_parameter [@x] : tensor<3x4xf64>
    %n = qwen.get_parameter [@n] : tensor<4xf64>
    %g = qwen.get_parameter [@g] : tensor<5x4xf64>
    %u = qwen.get_parameter [@u] : tensor<5x4xf64>
    %d = qwen.get_parameter [@d] : tensor<4x5xf64>
    // The input of this call depends on no parameter: another derivative.
    %0 = call @mlp(%c, %n, %g, %u, %d) : (tensor<3x4xf64>, tensor<4xf64>, tensor<5x4xf64>, tensor<5x4xf64>, tensor<4x5xf64>) -> tensor<3x4xf64>
    %1 = arith.mulf %0, %x : tensor<3x4xf64>
    %2 = call @mlp(%1, %n, %g, %u, %d) : (tensor<3x4xf64>, tensor<4xf64>, tensor<5x4xf64>, tensor<5x4xf64>, tensor<4x5xf64>) -> tensor<3x4xf64>
    %3 = call @block(%2, %n, %g, %u, %d) : (tensor<3x4xf64>, tensor<4xf64>, tensor<5x4xf64>, tensor<5x4xf64>, tensor<4x5xf64>) -> tensor<3x4xf64>
    %4 = arith.mulf %3, %c : tensor<3x4xf64>
    return %4 : tensor<3x4xf64>
  })";

/// Results that are arguments, are returned twice, have no cotangent; a
/// parameter read in the called function.
const char *const results = R"(
  qwen.parameter @a : tensor<4xf64> {init = "normal"}
  qwen.parameter @b : tensor<4xf64> {init = "normal"}
  func.func private @f(%a: tensor<4xf64>) -> (tensor<4xf64>, tensor<4xf64>, tensor<4xf64>, tensor<4xf64>) {
    %b = qwen.get_parameter [@b] : tensor<4xf64>
    %0 = arith.mulf %a, %b : tensor<4xf64>
    %1 = math.exp %0 : tensor<4xf64>
    %2 = math.round %1 : tensor<4xf64>
    return %1, %a, %1, %2 : tensor<4xf64>, tensor<4xf64>, tensor<4xf64>, tensor<4xf64>
  }
  func.func @forward() -> (tensor<4xf64> {qwen.output = "nll"}) {
    %a = qwen.get_parameter [@a] : tensor<4xf64>
    %0:4 = call @f(%a) : (tensor<4xf64>) -> (tensor<4xf64>, tensor<4xf64>, tensor<4xf64>, tensor<4xf64>)
    %1 = arith.mulf %0#0, %0#1 : tensor<4xf64>
    %2 = arith.mulf %1, %0#2 : tensor<4xf64>
    return %2 : tensor<4xf64>
  })";

GradientCase makeCase(const char *name, const char *module) {
  GradientCase test;
  test.name = name;
  test.module = module;
  return test;
}

} // namespace

std::vector<GradientCase> graphCases() {
  return {makeCase("several_uses", severalUses), makeCase("calls", calls),
          makeCase("results", results)};
}

std::vector<GradientCase> allCases() {
  std::vector<GradientCase> cases;
  for (auto part :
       {elementwiseCases(), structureCases(), regionCases(), graphCases()})
    cases.insert(cases.end(), part.begin(), part.end());
  return cases;
}

} // namespace qwen::gradcheck
