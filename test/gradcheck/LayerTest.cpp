//===- LayerTest.cpp - Gradients of whole models --------------------------===//
//
// The importer's graph in double, with both kinds of layer, on a ragged pack:
// the loss against every parameter.
//
//===----------------------------------------------------------------------===//

#include "GradCheck.h"

#include "models/Import.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

using namespace mlir;

namespace qwen::gradcheck {

/// The smallest config that has everything: `valueHeads` value heads on two key
/// heads, four query heads on two key/value heads.
static std::string configText(int valueHeads, bool tied) {
  return fmt::format(R"({{
    "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text",
    "attention_bias": false, "attention_dropout": 0.0, "attn_output_gate": true,
    "dtype": "float32", "full_attention_interval": 2, "hidden_act": "silu",
    "head_dim": 8, "hidden_size": 8, "initializer_range": 0.02,
    "intermediate_size": 12,
    "layer_types": ["linear_attention", "full_attention"],
    "linear_conv_kernel_dim": 4, "linear_key_head_dim": 4,
    "linear_num_key_heads": 2, "linear_num_value_heads": {},
    "linear_value_head_dim": 4, "mamba_ssm_dtype": "float32",
    "max_position_embeddings": 64, "num_attention_heads": 4,
    "num_hidden_layers": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
    "rope_parameters": {{"mrope_interleaved": true, "mrope_section": [1, 1, 0],
      "partial_rotary_factor": 0.5, "rope_theta": 10000, "rope_type": "default"}},
    "tie_word_embeddings": {}, "vocab_size": 16}})",
                     valueHeads, tied);
}

struct ModelShape {
  int valueHeads;
  bool tied;
};

class LayerTest : public testing::TestWithParam<ModelShape> {};

TEST_P(LayerTest, MatchesDifferences) {
  StatusOr<ModelConfig> config =
      parseConfig(configText(GetParam().valueHeads, GetParam().tied));
  ASSERT_TRUE(config.ok()) << config.status().message();
  std::unique_ptr<MLIRContext> context = makeContext();
  ImportOptions options;
  options.tokens = 12;
  options.maxDocuments = 5;
  options.dtype = "f64";
  StatusOr<OwningOpRef<ModuleOp>> module =
      importModel(*context, *config, options);
  ASSERT_TRUE(module.ok()) << module.status().message();

  GradientCase test;
  test.name = "model";
  test.inputs["tokens"] = {3, 1, 15, 0, 7, 7, 2, 9, 4, 11, 0, 0};
  test.inputs["labels"] = {1, 15, 0,    -100, 7,    -100,
                           9, 4,  -100, -100, -100, -100};
  test.inputs["positions"] = {0, 1, 2, 3, 0, 1, 0, 1, 2, 0, 0, 1};
  test.inputs["cu_seqlens"] = {0, 4, 6, 6, 9, 10};
  test.elements = 4;
  // Fewer than 32 sums of fewer than 32 terms lie behind each loss.
  test.reductionLength = 1024;
  ASSERT_TRUE(succeeded(differentiate(**module)));
  compareGradients(**module, test);
}

INSTANTIATE_TEST_SUITE_P(Models, LayerTest,
                         testing::Values(ModelShape{2, true},
                                         ModelShape{4, false},
                                         ModelShape{6, false}));

} // namespace qwen::gradcheck
