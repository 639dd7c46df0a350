//===- KnownFields.cpp - Fields of a config.json that say nothing new -----===//
//
// A field that is neither read nor known to leave the computation as it is may
// ask for something that the graph does not do. Such fields are named.
//
//===----------------------------------------------------------------------===//

#include "models/Config.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"

using namespace llvm;

/// Read by parseConfig, of the whole model or of its text part.
static constexpr StringRef readFields[] = {
    "architectures",
    "attention_bias",
    "attention_dropout",
    "attn_output_gate",
    "dtype",
    "full_attention_interval",
    "head_dim",
    "hidden_act",
    "hidden_size",
    "initializer_range",
    "intermediate_size",
    "layer_types",
    "linear_conv_kernel_dim",
    "linear_key_head_dim",
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_value_head_dim",
    "mlp_only_layers",
    "model_type",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "output_gate_type",
    "partial_rotary_factor",
    "rms_norm_eps",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "text_config",
    "tie_word_embeddings",
    "torch_dtype",
    "vocab_size",
};

/// Of parts that are not trained, of generation, or notes.
static constexpr StringRef otherFields[] = {
    "_name_or_path",
    "bos_token_id",
    "eos_token_id",
    "image_token_id",
    "language_model_only",
    "mamba_ssm_dtype",
    "max_position_embeddings",
    "mtp_num_hidden_layers",
    "mtp_use_dedicated_embeddings",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    "return_dict",
    "transformers_version",
    "use_cache",
    "video_token_id",
    "vision_config",
    "vision_end_token_id",
    "vision_start_token_id",
};

std::vector<std::string> qwen::unknownFields(StringRef text) {
  Expected<json::Value> parsed = json::parse(text);
  if (!parsed) {
    consumeError(parsed.takeError());
    return {};
  }
  StringSet<> known;
  for (StringRef field : readFields)
    known.insert(field);
  for (StringRef field : otherFields)
    known.insert(field);
  std::vector<std::string> unknown;
  auto collect = [&](const json::Object *object, StringRef path) {
    for (auto &[field, value] : *object)
      // Null is how a config says that it has none of it.
      if (!known.contains(StringRef(field)) &&
          value.kind() != json::Value::Null)
        unknown.push_back((path + StringRef(field)).str());
  };
  if (const json::Object *root = parsed->getAsObject()) {
    collect(root, "");
    if (const json::Object *part = root->getObject("text_config"))
      collect(part, "text_config.");
  }
  sort(unknown);
  return unknown;
}
