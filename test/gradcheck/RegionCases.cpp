//===- RegionCases.cpp - Checks of region ops on ragged packs -------------===//
//
// Lengths around the chunk of the gated delta rule, documents of no and of one
// token, unused boundary slots, and a tail of padding.
//
//===----------------------------------------------------------------------===//

#include "Cases.h"

#include <fmt/core.h>

namespace qwen::gradcheck {

namespace {

/// Document boundaries of a pack.
struct Pack {
  const char *name;
  int64_t tokens;
  std::vector<double> cuSeqlens;
};

std::vector<Pack> packs() {
  return {{"one", 5, {0, 5}},
          {"ragged", 11, {0, 0, 1, 4, 4, 9, 9, 9}},
          {"padding", 7, {0, 2, 2, 3, 3}},
          {"nothing", 3, {0, 0}}};
}

std::string decl(const char *name, const std::string &type) {
  return fmt::format("qwen.parameter @{} : {} {{init = \"one\"}}\n", name,
                     type);
}

std::string read(const char *name, const std::string &type) {
  return fmt::format("%{0} = qwen.get_parameter [@{0}] : {1}\n", name, type);
}

/// `parameters` by name and type, `op` the text after "%y = ", ending in the
/// types that follow those of the parameters.
GradientCase
makeCase(const std::string &name, const Pack &pack,
         const std::vector<std::pair<const char *, std::string>> &parameters,
         const std::string &resultName, const std::string &op,
         const std::string &type) {
  std::string boundaries = fmt::format("tensor<{}xi32>", pack.cuSeqlens.size());
  std::string declarations, reads, operandTypes;
  for (auto &[parameter, parameterType] : parameters) {
    declarations += decl(parameter, parameterType);
    reads += read(parameter, parameterType);
    operandTypes += parameterType + ", ";
  }
  GradientCase test;
  test.name = fmt::format("{}.{}", name, pack.name);
  test.module = fmt::format(
      "{0}func.func @forward(%c: {1} {{qwen.input = \"c\"}}, %cu: {2} "
      "{{qwen.input = \"cu_seqlens\"}}) -> ({1} {{qwen.output = \"nll\"}}) {{\n"
      "{3}{4} = {5} : {6}{2} -> {1}{7}\n%z = arith.mulf %y, %c : {1}\n"
      "return %z : {1}\n}}\n",
      declarations, type, boundaries, reads, resultName, op, operandTypes,
      resultName == "%y" ? "" : fmt::format(", tensor<{}x4xf64>", pack.tokens));
  test.inputs["cu_seqlens"] = pack.cuSeqlens;
  if (pack.cuSeqlens.back() == 0)
    for (auto &[parameter, parameterType] : parameters)
      test.independent.push_back(parameter);
  return test;
}

GradientCase convolution(const Pack &pack) {
  std::string x = fmt::format("tensor<{}x3xf64>", pack.tokens);
  return makeCase("qwen.causal_conv1d", pack,
                  {{"x", x}, {"w", "tensor<3x1x4xf64>"}}, "%y",
                  "qwen.causal_conv1d %x, %w, %cu", x);
}

GradientCase gatedDelta(const Pack &pack, int64_t keyHeads, int64_t chunk) {
  std::string q = fmt::format("tensor<{}x{}x3xf64>", pack.tokens, keyHeads);
  std::string v = fmt::format("tensor<{}x2x4xf64>", pack.tokens);
  std::string g = fmt::format("tensor<{}x2xf64>", pack.tokens);
  GradientCase test = makeCase(
      fmt::format("qwen.gated_delta.{}heads.chunk{}", keyHeads, chunk), pack,
      {{"q", q}, {"k", q}, {"v", v}, {"g", g}, {"beta", g}}, "%y",
      fmt::format("qwen.gated_delta %q, %k, %v, %g, %beta, %cu {{scale = 0.6, "
                  "l2norm_eps = 1.0e-3, chunk = {} : i64}}",
                  chunk),
      v);
  test.ranges["g"] = {-2.0, 0.0};
  test.ranges["beta"] = {0.05, 0.95};
  return test;
}

GradientCase attention(const Pack &pack) {
  std::string q = fmt::format("tensor<{}x4x3xf64>", pack.tokens);
  std::string k = fmt::format("tensor<{}x2x3xf64>", pack.tokens);
  return makeCase("qwen.attention", pack, {{"q", q}, {"k", k}, {"v", k}},
                  "%y, %lse", "qwen.attention %q, %k, %v, %cu {scale = 0.7}",
                  q);
}

GradientCase crossEntropy(const std::string &name,
                          const std::vector<double> &labels) {
  GradientCase test;
  test.name = "qwen.linear_cross_entropy." + name;
  test.module = R"(
    qwen.parameter @x : tensor<5x3xf64> {init = "normal"}
    qwen.parameter @w : tensor<7x3xf64> {init = "normal"}
    func.func @forward(%c: tensor<5xf64> {qwen.input = "c"}, %labels: tensor<5xi32> {qwen.input = "labels"}) -> (tensor<5xf64> {qwen.output = "nll"}) {
      %x = qwen.get_parameter [@x] : tensor<5x3xf64>
      %w = qwen.get_parameter [@w] : tensor<7x3xf64>
      %y = qwen.linear_cross_entropy %x, %w, %labels : tensor<5x3xf64>, tensor<7x3xf64>, tensor<5xi32> -> tensor<5xf64>
      %z = arith.mulf %y, %c : tensor<5xf64>
      return %z : tensor<5xf64>
    })";
  test.inputs["labels"] = labels;
  return test;
}

} // namespace

std::vector<GradientCase> regionCases() {
  std::vector<GradientCase> cases;
  for (const Pack &pack : packs()) {
    cases.push_back(convolution(pack));
    cases.push_back(gatedDelta(pack, 1, 16));
    cases.push_back(gatedDelta(pack, 2, 64));
    cases.push_back(attention(pack));
  }
  // Across chunk boundaries of 16 and 64 tokens.
  Pack many{"long", 131, {0, 63, 128, 128, 130}};
  for (GradientCase test :
       {gatedDelta(many, 1, 64), gatedDelta(many, 1, 16),
        gatedDelta(many, 2, 16), convolution(many), attention(many)}) {
    test.elements = 8;
    test.reductionLength = 512;
    cases.push_back(test);
  }
  cases.push_back(crossEntropy("all", {0, 6, 3, 3, 1}));
  cases.push_back(crossEntropy("some", {-100, 6, -100, 0, -100}));
  GradientCase none = crossEntropy("none", {-100, -100, -100, -100, -100});
  none.independent = {"x", "w"};
  cases.push_back(none);
  return cases;
}

} // namespace qwen::gradcheck
