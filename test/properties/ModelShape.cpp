//===- ModelShape.cpp - The sizes of a random model -----------------------===//

#include "ModelShape.h"

#include "Case.h"

#include <fmt/format.h>

#include <initializer_list>

using namespace qwen;
using namespace qwen::property;
using e2e::Generator;

static int64_t pick(Generator &generator, std::initializer_list<int64_t> from) {
  return from.begin()[e2e::draw(generator, int32_t(from.size()))];
}

/// Three in four are a whole number of vectors of eight.
static int64_t drawWidth(Generator &generator, int32_t most) {
  return chance(generator, 75) ? 8 * between(generator, 1, most / 8)
                               : between(generator, 5, most);
}

/// Up to four layers of any kinds in any order.
static std::vector<bool> drawLayers(Generator &generator) {
  std::vector<bool> layers(size_t(between(generator, 1, 4)));
  for (size_t i = 0; i < layers.size(); ++i)
    layers[i] = chance(generator, 35);
  return layers;
}

/// An even part of a head, such that partial_rotary_factor says it exactly.
static int64_t drawRotaryWidth(Generator &generator, int64_t headDim) {
  for (int64_t divisor = pick(generator, {1, 2, 4}); divisor > 1; divisor /= 2)
    if (headDim % (2 * divisor) == 0)
      return headDim / divisor;
  return headDim;
}

ModelShape qwen::property::drawCpuShape(Generator &generator) {
  ModelShape shape;
  shape.isAttention = drawLayers(generator);
  shape.hidden = drawWidth(generator, 96);
  shape.intermediate = drawWidth(generator, 96);
  shape.vocabulary = between(generator, 2, 300);
  shape.keyValueHeads = between(generator, 1, 3);
  shape.heads = shape.keyValueHeads * between(generator, 1, 3);
  shape.headDim = pick(generator, {2, 4, 6, 8, 12, 16, 20, 32, 64});
  shape.rotaryWidth = drawRotaryWidth(generator, shape.headDim);
  shape.deltaKeyHeads = between(generator, 1, 3);
  shape.deltaValueHeads = shape.deltaKeyHeads * between(generator, 1, 3);
  shape.deltaKeyDim = pick(generator, {1, 4, 7, 8, 16, 24, 32});
  shape.deltaValueDim = chance(generator, 50)
                            ? shape.deltaKeyDim
                            : pick(generator, {1, 4, 8, 9, 16, 32, 48});
  shape.taps = chance(generator, 60) ? 4 : between(generator, 1, 8);
  shape.isTied = chance(generator, 50);
  shape.isMultimodal = chance(generator, 30);
  shape.ropeTheta = chance(generator, 50) ? 1e4 : 1e7;
  return shape;
}

ModelShape qwen::property::drawCudaShape(Generator &generator) {
  ModelShape shape;
  shape.isAttention = drawLayers(generator);
  shape.hidden = 64 * between(generator, 1, 4);
  shape.intermediate = 64 * between(generator, 1, 4);
  shape.vocabulary = 8 * between(generator, 4, 40);
  shape.keyValueHeads = between(generator, 1, 2);
  shape.heads = shape.keyValueHeads * between(generator, 1, 3);
  shape.headDim = pick(generator, {64, 128, 256});
  shape.rotaryWidth = shape.headDim / 4;
  // Rows of the merged projection, which has two columns a value head, must be
  // multiples of 16 bytes.
  shape.deltaKeyHeads = 4;
  shape.deltaValueHeads = shape.deltaKeyHeads * between(generator, 1, 3);
  shape.deltaKeyDim = shape.deltaValueDim = 128;
  shape.taps = 4;
  shape.isTied = chance(generator, 50);
  shape.isMultimodal = chance(generator, 30);
  shape.ropeTheta = chance(generator, 50) ? 1e4 : 1e7;
  return shape;
}

static std::string layerTypes(const ModelShape &shape) {
  std::string text;
  for (bool isAttention : shape.isAttention)
    text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ",
                        isAttention ? "full_attention" : "linear_attention");
  return "[" + text + "]";
}

std::string qwen::property::configText(const ModelShape &shape) {
  std::string text = fmt::format(
      R"({{"model_type": "qwen3_5_text", "hidden_act": "silu",
"hidden_size": {}, "intermediate_size": {}, "vocab_size": {},
"num_hidden_layers": {}, "layer_types": {},
"num_attention_heads": {}, "num_key_value_heads": {}, "head_dim": {},
"linear_num_key_heads": {}, "linear_num_value_heads": {},
"linear_key_head_dim": {}, "linear_value_head_dim": {},
"linear_conv_kernel_dim": {}, "initializer_range": 0.02, "rms_norm_eps": 1e-06,
"rope_parameters": {{"rope_type": "default", "rope_theta": {},
"partial_rotary_factor": {}}}, "tie_word_embeddings": {}}})",
      shape.hidden, shape.intermediate, shape.vocabulary,
      shape.isAttention.size(), layerTypes(shape), shape.heads,
      shape.keyValueHeads, shape.headDim, shape.deltaKeyHeads,
      shape.deltaValueHeads, shape.deltaKeyDim, shape.deltaValueDim, shape.taps,
      shape.ropeTheta, double(shape.rotaryWidth) / double(shape.headDim),
      shape.isTied);
  if (!shape.isMultimodal)
    return text;
  return fmt::format(R"({{"model_type": "qwen3_5", "text_config": {}}})", text);
}

std::string qwen::property::describe(const ModelShape &shape) {
  std::string layers;
  for (bool isAttention : shape.isAttention)
    layers += isAttention ? 'A' : 'D';
  return fmt::format(
      "layers {} (D: gated delta, A: attention), hidden {}, MLP {}, vocabulary "
      "{}{}, attention {}/{} heads of {} ({} rotated), delta {}/{} heads of "
      "{}/{}, {} taps",
      layers, shape.hidden, shape.intermediate, shape.vocabulary,
      shape.isTied ? " (tied)" : "", shape.heads, shape.keyValueHeads,
      shape.headDim, shape.rotaryWidth, shape.deltaKeyHeads,
      shape.deltaValueHeads, shape.deltaKeyDim, shape.deltaValueDim,
      shape.taps);
}
