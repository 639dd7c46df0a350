//===- StructureCases.cpp - Checks of products, rows and shapes -----------===//

#include "Cases.h"

#include <fmt/core.h>

namespace qwen::gradcheck {

/// Builds a case from declared parameters, other inputs and a body that defines
/// %y of `type`; the result is %y weighted by an input.
static GradientCase
makeCase(const std::string &name,
         const std::vector<std::pair<std::string, std::string>> &parameters,
         const std::string &inputs, const std::string &body,
         const std::string &type) {
  std::string declarations, reads;
  for (auto &[parameter, parameterType] : parameters) {
    declarations += fmt::format("qwen.parameter @{} : {} {{init = \"one\"}}\n",
                                parameter, parameterType);
    reads += fmt::format("%{0} = qwen.get_parameter [@{0}] : {1}\n", parameter,
                         parameterType);
  }
  GradientCase test;
  test.name = name;
  test.module = fmt::format(
      "{0}func.func @forward(%c: {1} {{qwen.input = \"c\"}}{2}) -> ({1} "
      "{{qwen.output = \"nll\"}}) {{\n{3}{4}\n%z = arith.mulf %y, %c : {1}\n"
      "return %z : {1}\n}}\n",
      declarations, type, inputs, reads, body, type);
  return test;
}

static GradientCase matmul(bool ta, bool tb) {
  std::string a = ta ? "tensor<4x3xf64>" : "tensor<3x4xf64>";
  std::string b = tb ? "tensor<5x4xf64>" : "tensor<4x5xf64>";
  std::string flags = ta && tb ? "{transpose_a, transpose_b}"
                      : ta     ? "{transpose_a}"
                      : tb     ? "{transpose_b}"
                               : "";
  return makeCase(
      fmt::format("qwen.matmul{}{}", ta ? "A" : "", tb ? "B" : ""),
      {{"a", a}, {"b", b}}, "",
      fmt::format("%y = qwen.matmul %a, %b {} : {}, {} -> tensor<3x5xf64>",
                  flags, a, b),
      "tensor<3x5xf64>");
}

static GradientCase rmsNorm(double offset, const std::string &x) {
  std::string body = fmt::format(
      "%y = qwen.rms_norm %x, %w {{eps = 1.0e-2, offset = {:.1f}}} : {}, "
      "tensor<6xf64> -> {}",
      offset, x, x);
  return makeCase(fmt::format("qwen.rms_norm{}{}", offset, x),
                  {{"x", x}, {"w", "tensor<6xf64>"}}, "", body, x);
}

static GradientCase rope(bool inverse) {
  GradientCase test = makeCase(
      inverse ? "qwen.rope.inverse" : "qwen.rope", {{"x", "tensor<3x2x6xf64>"}},
      ", %positions: tensor<3xi32> {qwen.input = \"positions\"}",
      fmt::format(
          "%angles = qwen.rope_angles %positions {{theta = 100.0}} : "
          "tensor<3xi32> -> tensor<3x4xf64>\n"
          "%y = qwen.rope %x, %angles {} : tensor<3x2x6xf64>, tensor<3x4xf64>",
          inverse ? "{inverse}" : ""),
      "tensor<3x2x6xf64>");
  test.inputs["positions"] = {0, 3, 1};
  return test;
}

static std::vector<GradientCase> shapes() {
  return {
      makeCase("qwen.broadcast", {{"x", "tensor<3xf64>"}}, "",
               "%y = qwen.broadcast %x dims = [1] : tensor<3xf64> -> "
               "tensor<2x3x4xf64>",
               "tensor<2x3x4xf64>"),
      makeCase("qwen.broadcast.scalar", {{"x", "tensor<1xf64>"}}, "",
               "%r = qwen.reduce_sum %x dims = [0] : tensor<1xf64> -> "
               "tensor<f64>\n%y = qwen.broadcast %r dims = [] : tensor<f64> "
               "-> tensor<4xf64>",
               "tensor<4xf64>"),
      makeCase("qwen.reduce_sum", {{"x", "tensor<2x3x4xf64>"}}, "",
               "%q = arith.mulf %x, %x : tensor<2x3x4xf64>\n"
               "%y = qwen.reduce_sum %q dims = [0, 2] : tensor<2x3x4xf64> -> "
               "tensor<3xf64>",
               "tensor<3xf64>"),
      makeCase("qwen.reshape", {{"x", "tensor<2x6xf64>"}}, "",
               "%q = arith.mulf %x, %x : tensor<2x6xf64>\n"
               "%y = qwen.reshape %q : tensor<2x6xf64> -> tensor<4x3xf64>",
               "tensor<4x3xf64>"),
      makeCase("qwen.concat",
               {{"x", "tensor<2x1xf64>"}, {"w", "tensor<2x3xf64>"}}, "",
               "%y = qwen.concat %x, %w : tensor<2x1xf64>, tensor<2x3xf64> -> "
               "tensor<2x4xf64>",
               "tensor<2x4xf64>"),
      makeCase("qwen.split", {{"x", "tensor<2x5xf64>"}}, "",
               "%p:2 = qwen.split %x : tensor<2x5xf64> -> tensor<2x3xf64>, "
               "tensor<2x2xf64>\n%y = qwen.concat %p#1, %p#0 : "
               "tensor<2x2xf64>, tensor<2x3xf64> -> tensor<2x5xf64>",
               "tensor<2x5xf64>"),
      // The middle piece does not influence the loss.
      makeCase("qwen.split.unused", {{"x", "tensor<2x6xf64>"}}, "",
               "%p:3 = qwen.split %x : tensor<2x6xf64> -> tensor<2x2xf64>, "
               "tensor<2x2xf64>, tensor<2x2xf64>\n"
               "%y = arith.mulf %p#0, %p#2 : tensor<2x2xf64>",
               "tensor<2x2xf64>")};
}

std::vector<GradientCase> structureCases() {
  std::vector<GradientCase> cases = shapes();
  cases.push_back(makeCase(
      "qwen.linear", {{"x", "tensor<3x4xf64>"}, {"w", "tensor<5x4xf64>"}}, "",
      "%y = qwen.linear %x, %w : tensor<3x4xf64>, tensor<5x4xf64> -> "
      "tensor<3x5xf64>",
      "tensor<3x5xf64>"));
  for (bool ta : {false, true})
    for (bool tb : {false, true})
      cases.push_back(matmul(ta, tb));
  for (double offset : {0.0, 1.0})
    for (const char *x : {"tensor<3x6xf64>", "tensor<2x2x6xf64>"})
      cases.push_back(rmsNorm(offset, x));
  cases.push_back(rope(false));
  cases.push_back(rope(true));

  GradientCase embedding = makeCase(
      "qwen.embedding", {{"table", "tensor<4x3xf64>"}},
      ", %ids: tensor<5xi32> {qwen.input = \"ids\"}",
      "%r = qwen.embedding %table, %ids : tensor<4x3xf64>, tensor<5xi32> -> "
      "tensor<5x3xf64>\n%y = arith.mulf %r, %r : tensor<5x3xf64>",
      "tensor<5x3xf64>");
  embedding.inputs["ids"] = {3, 0, 3, 1, 3};
  cases.push_back(embedding);
  return cases;
}

} // namespace qwen::gradcheck
