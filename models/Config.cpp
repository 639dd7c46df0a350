//===- Config.cpp - A model's shape, from its config.json -----------------===//
//
// Parses the fields that the graph depends on and refuses those that ask for
// something else.
//
//===----------------------------------------------------------------------===//

#include "models/Config.h"
#include "models/ConfigFields.h"
#include "qwen/Plan/Buffer.h"
#include "runtime/support/Json.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <numeric>

using namespace llvm;
using namespace qwen;

int64_t ModelConfig::countLayers(LayerKind kind) const {
  return llvm::count(layers, kind);
}

//===----------------------------------------------------------------------===//
// Architecture
//===----------------------------------------------------------------------===//

/// Refuses what is not the dense architecture.
static Status checkArchitecture(const ConfigFields &root) {
  QWEN_ASSIGN_OR_RETURN(std::optional<std::string> type,
                        root.string("model_type"));
  if (!type || (*type != "qwen3_5" && *type != "qwen3_5_text"))
    return root.mismatch("model_type",
                         "\"qwen3_5\" or \"qwen3_5_text\" (dense hybrids)");
  QWEN_ASSIGN_OR_RETURN(auto architectures, root.strings("architectures"));
  if (!architectures)
    return okStatus();
  for (const std::string &name : *architectures)
    if (name != "Qwen3_5ForConditionalGeneration" &&
        name != "Qwen3_5ForCausalLM")
      return root.mismatch("architectures",
                           "\"Qwen3_5ForConditionalGeneration\" or "
                           "\"Qwen3_5ForCausalLM\"");
  return okStatus();
}

/// Fields that would change the computation, where they are present.
static Status checkUnsupported(const ConfigFields &text) {
  for (StringRef field :
       {"num_experts", "num_local_experts", "num_experts_per_tok",
        "moe_intermediate_size", "shared_expert_intermediate_size"})
    QWEN_RETURN_IF_ERROR(
        text.requireAbsent(field, "only dense models are supported, no "
                                  "mixture of experts"));
  for (StringRef field : {"attn_logit_softcapping", "final_logit_softcapping",
                          "sliding_window", "quantization_config"})
    QWEN_RETURN_IF_ERROR(text.requireAbsent(field, "not supported"));
  QWEN_RETURN_IF_ERROR(text.requireBoolean("attention_bias", false));
  QWEN_RETURN_IF_ERROR(text.requireBoolean("use_sliding_window", false));
  QWEN_RETURN_IF_ERROR(text.requireBoolean("attn_output_gate", true));
  QWEN_RETURN_IF_ERROR(text.requireZero("attention_dropout"));
  QWEN_RETURN_IF_ERROR(text.requireString("hidden_act", {"silu"}));
  QWEN_RETURN_IF_ERROR(text.requireString("output_gate_type", {"swish"}));
  QWEN_ASSIGN_OR_RETURN(auto mlpOnly, text.integers("mlp_only_layers"));
  if (mlpOnly && !mlpOnly->empty())
    return text.mismatch("mlp_only_layers", "an empty list");
  return okStatus();
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

static Status expectDivisible(const ConfigFields &fields, StringRef name,
                              int64_t count, StringRef groupsName,
                              int64_t groups) {
  if (count % groups == 0)
    return okStatus();
  return invalidArgument("{}: expected a multiple of {} ({}), found {}",
                         fields.fullName(name), groupsName.str(), groups,
                         count);
}

/// `heads` heads of `dim` elements, `times` of them side by side, must be no
/// wider than a dimension can be.
static Status expectWidth(const ConfigFields &fields, StringRef headsName,
                          int64_t heads, StringRef dimName, int64_t dim,
                          int64_t times) {
  int64_t most = maxDimension / times / dim;
  if (heads <= most)
    return okStatus();
  return invalidArgument("{}: expected at most {} with {} {}, found {}",
                         fields.fullName(headsName), most, dimName.str(), dim,
                         heads);
}

static Status parseSizes(const ConfigFields &text, ModelConfig &config) {
  QWEN_ASSIGN_OR_RETURN(config.hiddenSize, text.positive("hidden_size"));
  QWEN_ASSIGN_OR_RETURN(config.intermediateSize,
                        text.positive("intermediate_size"));
  QWEN_ASSIGN_OR_RETURN(config.vocabSize, text.positive("vocab_size"));
  QWEN_ASSIGN_OR_RETURN(config.rmsNormEps, text.positiveNumber("rms_norm_eps"));
  QWEN_ASSIGN_OR_RETURN(config.initializerRange,
                        text.positiveNumber("initializer_range"));
  return okStatus();
}

static Status parseGatedDelta(const ConfigFields &text, ModelConfig &config) {
  QWEN_ASSIGN_OR_RETURN(config.deltaKeyHeads,
                        text.positive("linear_num_key_heads"));
  QWEN_ASSIGN_OR_RETURN(config.deltaValueHeads,
                        text.positive("linear_num_value_heads"));
  QWEN_ASSIGN_OR_RETURN(config.deltaKeyDim,
                        text.positive("linear_key_head_dim"));
  QWEN_ASSIGN_OR_RETURN(config.deltaValueDim,
                        text.positive("linear_value_head_dim"));
  QWEN_ASSIGN_OR_RETURN(config.convWidth,
                        text.positive("linear_conv_kernel_dim"));
  // The convolution runs over queries, keys and values side by side.
  QWEN_RETURN_IF_ERROR(expectWidth(text, "linear_num_key_heads",
                                   config.deltaKeyHeads, "linear_key_head_dim",
                                   config.deltaKeyDim, 4));
  QWEN_RETURN_IF_ERROR(
      expectWidth(text, "linear_num_value_heads", config.deltaValueHeads,
                  "linear_value_head_dim", config.deltaValueDim, 2));
  return expectDivisible(text, "linear_num_value_heads", config.deltaValueHeads,
                         "linear_num_key_heads", config.deltaKeyHeads);
}

/// A number that may stand at either of two places, but not differently.
static StatusOr<double> agreeing(const ConfigFields &rope,
                                 const ConfigFields &text, StringRef field) {
  QWEN_ASSIGN_OR_RETURN(std::optional<double> inRope, rope.number(field));
  QWEN_ASSIGN_OR_RETURN(std::optional<double> inText, text.number(field));
  if (!inRope && !inText)
    return rope.mismatch(field, "a number");
  if (inRope && inText && *inRope != *inText)
    return invalidArgument("{}: expected {}, as in {}, found {}",
                           text.fullName(field), *inRope, rope.fullName(field),
                           *inText);
  return inRope ? *inRope : *inText;
}

/// The rotated part of a head and the base of its frequencies.
static Status parseRotary(const ConfigFields &text, ModelConfig &config) {
  QWEN_RETURN_IF_ERROR(text.requireAbsent(
      "rope_scaling", "rope_parameters, unscaled, is what is supported"));
  QWEN_ASSIGN_OR_RETURN(ConfigFields rope, text.child("rope_parameters"));
  QWEN_RETURN_IF_ERROR(rope.requireString("rope_type", {"default"}));
  QWEN_ASSIGN_OR_RETURN(config.ropeTheta, agreeing(rope, text, "rope_theta"));
  if (config.ropeTheta <= 0)
    return rope.mismatch("rope_theta", "a positive number");
  QWEN_ASSIGN_OR_RETURN(double factor,
                        agreeing(rope, text, "partial_rotary_factor"));
  double width = factor * config.headDim;
  if (!(factor > 0 && factor <= 1) || width != std::floor(width) ||
      static_cast<int64_t>(width) % 2 != 0)
    return invalidArgument(
        "{}: expected a factor in (0, 1] that gives an even whole rotary width "
        "with head_dim {}, found {} (width {})",
        rope.fullName("partial_rotary_factor"), config.headDim, factor, width);
  config.rotaryWidth = static_cast<int64_t>(width);
  // The sections distribute the frequencies over time, height and width; for
  // text all three positions are equal.
  QWEN_ASSIGN_OR_RETURN(auto sections, rope.integers("mrope_section"));
  int64_t frequencies = config.rotaryWidth / 2;
  if (sections && std::accumulate(sections->begin(), sections->end(),
                                  int64_t(0)) != frequencies)
    return rope.mismatch("mrope_section",
                         "sections that sum to half the rotary width (" +
                             std::to_string(frequencies) + ")");
  return okStatus();
}

static Status parseAttention(const ConfigFields &text, ModelConfig &config) {
  QWEN_ASSIGN_OR_RETURN(config.attentionHeads,
                        text.positive("num_attention_heads"));
  QWEN_ASSIGN_OR_RETURN(config.keyValueHeads,
                        text.positive("num_key_value_heads"));
  QWEN_ASSIGN_OR_RETURN(config.headDim, text.positive("head_dim"));
  // Each query head comes with a gate.
  QWEN_RETURN_IF_ERROR(expectWidth(text, "num_attention_heads",
                                   config.attentionHeads, "head_dim",
                                   config.headDim, 2));
  QWEN_RETURN_IF_ERROR(
      expectDivisible(text, "num_attention_heads", config.attentionHeads,
                      "num_key_value_heads", config.keyValueHeads));
  return parseRotary(text, config);
}

/// Layer kinds from layer_types, from full_attention_interval, or from both
/// where they agree.
static Status parseLayers(const ConfigFields &text, ModelConfig &config) {
  QWEN_ASSIGN_OR_RETURN(int64_t count, text.positive("num_hidden_layers"));
  constexpr int64_t mostLayers = 4096;
  if (count > mostLayers)
    return text.mismatch("num_hidden_layers",
                         "at most " + std::to_string(mostLayers));
  QWEN_ASSIGN_OR_RETURN(auto types, text.strings("layer_types"));
  int64_t interval = 0;
  if (!types || text.has("full_attention_interval")) {
    QWEN_ASSIGN_OR_RETURN(interval, text.positive("full_attention_interval"));
  }
  if (types && static_cast<int64_t>(types->size()) != count)
    return invalidArgument(
        "{}: expected one entry for each of num_hidden_layers ({}), found {}",
        text.fullName("layer_types"), count, types->size());
  for (int64_t i = 0; i < count; ++i) {
    bool byInterval = interval && (i + 1) % interval == 0;
    if (!types) {
      config.layers.push_back(byInterval ? LayerKind::Attention
                                         : LayerKind::GatedDelta);
      continue;
    }
    const std::string &type = (*types)[i];
    bool isAttention = type == "full_attention";
    if (!isAttention && type != "linear_attention")
      return invalidArgument("{}[{}]: expected \"linear_attention\" or "
                             "\"full_attention\", found \"{}\"",
                             text.fullName("layer_types"), i, printable(type));
    if (interval && isAttention != byInterval)
      return invalidArgument(
          "{}[{}]: expected \"{}\", as full_attention_interval ({}) says, "
          "found \"{}\"",
          text.fullName("layer_types"), i,
          byInterval ? "full_attention" : "linear_attention", interval,
          printable(type));
    config.layers.push_back(isAttention ? LayerKind::Attention
                                        : LayerKind::GatedDelta);
  }
  return okStatus();
}

/// Fields that the multimodal form may hold at both levels.
static Status parseShared(const ConfigFields &root, const ConfigFields &text,
                          ModelConfig &config) {
  QWEN_ASSIGN_OR_RETURN(auto outer, root.boolean("tie_word_embeddings"));
  QWEN_ASSIGN_OR_RETURN(auto inner, text.boolean("tie_word_embeddings"));
  if (!outer && !inner)
    return text.mismatch("tie_word_embeddings", "true or false");
  if (outer && inner && *outer != *inner)
    return text.mismatch("tie_word_embeddings",
                         std::string(*outer ? "true" : "false") +
                             ", as tie_word_embeddings of the whole model");
  config.tiedEmbeddings = outer ? *outer : *inner;

  for (StringRef field : {"torch_dtype", "dtype"})
    for (const ConfigFields *level : {&root, &text}) {
      QWEN_ASSIGN_OR_RETURN(auto dtype, level->string(field));
      if (!dtype)
        continue;
      if (!config.dtype.empty() && config.dtype != *dtype)
        return level->mismatch(field, "\"" + printable(config.dtype) +
                                          "\", as elsewhere in the config");
      config.dtype = *dtype;
    }
  return okStatus();
}

//===----------------------------------------------------------------------===//
// Whole
//===----------------------------------------------------------------------===//

/// Nesting that no config has would exhaust the stack of a recursive parser.
static Status checkNesting(StringRef text) {
  constexpr int deepest = 64;
  int depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (inString) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        inString = false;
    } else if (c == '"') {
      inString = true;
    } else if (c == '{' || c == '[') {
      if (++depth > deepest)
        return invalidArgument("expected JSON nested at most {} deep", deepest);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return okStatus();
}

StatusOr<ModelConfig> qwen::parseConfig(StringRef text) {
  QWEN_RETURN_IF_ERROR(checkNesting(text));
  Expected<json::Value> json = json::parse(text);
  if (!json)
    return invalidArgument("expected JSON, found: {}",
                           toString(json.takeError()));
  const json::Object *object = json->getAsObject();
  if (!object)
    return invalidArgument("expected a JSON object");

  ConfigFields root(*object, "");
  QWEN_RETURN_IF_ERROR(checkArchitecture(root));
  ModelConfig config;
  config.modelType = object->getString("model_type")->str();
  std::optional<ConfigFields> nested;
  if (config.isMultimodal()) {
    QWEN_ASSIGN_OR_RETURN(ConfigFields child, root.child("text_config"));
    nested.emplace(child);
    QWEN_RETURN_IF_ERROR(nested->requireString("model_type", {"qwen3_5_text"}));
    QWEN_RETURN_IF_ERROR(
        root.requireAbsent("quantization_config", "not supported"));
  }
  const ConfigFields &fields = nested ? *nested : root;
  QWEN_RETURN_IF_ERROR(checkUnsupported(fields));
  QWEN_RETURN_IF_ERROR(parseSizes(fields, config));
  QWEN_RETURN_IF_ERROR(parseAttention(fields, config));
  QWEN_RETURN_IF_ERROR(parseGatedDelta(fields, config));
  QWEN_RETURN_IF_ERROR(parseLayers(fields, config));
  QWEN_RETURN_IF_ERROR(parseShared(root, fields, config));
  return config;
}
