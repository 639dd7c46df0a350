module attributes {qwen.max_documents = 8 : i64, qwen.model = {attention_layers = 1 : i64, dtype = "f32", flops = {attention = [0.000000e+00, 3.072000e+03], gated_delta = [4.423680e+05, 0.000000e+00], linear = [0x4176920000000000 : f64, 0.000000e+00]}, gated_delta_layers = 3 : i64, hidden_size = 256 : i64, intermediate_size = 768 : i64, model_type = "qwen3_5_text", name = "tiny", num_hidden_layers = 4 : i64, tie_word_embeddings = true, vocab_size = 2048 : i64}, qwen.tokens = 128 : i64} {
  qwen.parameter @model.embed_tokens.weight : tensor<2048x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.0.input_layernorm.weight : tensor<256xf32> {decay = false, init = "zero"}
  qwen.parameter @model.layers.0.linear_attn.in_proj_qkv.weight : tensor<512x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.0.linear_attn.in_proj_z.weight : tensor<256x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.0.linear_attn.in_proj_b.weight : tensor<8x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.0.linear_attn.in_proj_a.weight : tensor<8x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.0.linear_attn.conv1d.weight : tensor<512x1x4xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.0.linear_attn.A_log : tensor<8xf32> {decay = false, init = "a_log"}
  qwen.parameter @model.layers.0.linear_attn.dt_bias : tensor<8xf32> {decay = false, init = "one"}
  qwen.parameter @model.layers.0.linear_attn.norm.weight : tensor<32xf32> {decay = false, init = "one"}
  qwen.parameter @model.layers.0.linear_attn.out_proj.weight : tensor<256x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.0.post_attention_layernorm.weight : tensor<256xf32> {decay = false, init = "zero"}
  qwen.parameter @model.layers.0.mlp.gate_proj.weight : tensor<768x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.0.mlp.up_proj.weight : tensor<768x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.0.mlp.down_proj.weight : tensor<256x768xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.1.input_layernorm.weight : tensor<256xf32> {decay = false, init = "zero"}
  qwen.parameter @model.layers.1.linear_attn.in_proj_qkv.weight : tensor<512x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.1.linear_attn.in_proj_z.weight : tensor<256x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.1.linear_attn.in_proj_b.weight : tensor<8x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.1.linear_attn.in_proj_a.weight : tensor<8x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.1.linear_attn.conv1d.weight : tensor<512x1x4xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.1.linear_attn.A_log : tensor<8xf32> {decay = false, init = "a_log"}
  qwen.parameter @model.layers.1.linear_attn.dt_bias : tensor<8xf32> {decay = false, init = "one"}
  qwen.parameter @model.layers.1.linear_attn.norm.weight : tensor<32xf32> {decay = false, init = "one"}
  qwen.parameter @model.layers.1.linear_attn.out_proj.weight : tensor<256x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.1.post_attention_layernorm.weight : tensor<256xf32> {decay = false, init = "zero"}
  qwen.parameter @model.layers.1.mlp.gate_proj.weight : tensor<768x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.1.mlp.up_proj.weight : tensor<768x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.1.mlp.down_proj.weight : tensor<256x768xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.2.input_layernorm.weight : tensor<256xf32> {decay = false, init = "zero"}
  qwen.parameter @model.layers.2.linear_attn.in_proj_qkv.weight : tensor<512x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.2.linear_attn.in_proj_z.weight : tensor<256x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.2.linear_attn.in_proj_b.weight : tensor<8x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.2.linear_attn.in_proj_a.weight : tensor<8x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.2.linear_attn.conv1d.weight : tensor<512x1x4xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.2.linear_attn.A_log : tensor<8xf32> {decay = false, init = "a_log"}
  qwen.parameter @model.layers.2.linear_attn.dt_bias : tensor<8xf32> {decay = false, init = "one"}
  qwen.parameter @model.layers.2.linear_attn.norm.weight : tensor<32xf32> {decay = false, init = "one"}
  qwen.parameter @model.layers.2.linear_attn.out_proj.weight : tensor<256x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.2.post_attention_layernorm.weight : tensor<256xf32> {decay = false, init = "zero"}
  qwen.parameter @model.layers.2.mlp.gate_proj.weight : tensor<768x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.2.mlp.up_proj.weight : tensor<768x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.2.mlp.down_proj.weight : tensor<256x768xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.3.input_layernorm.weight : tensor<256xf32> {decay = false, init = "zero"}
  qwen.parameter @model.layers.3.self_attn.q_proj.weight : tensor<512x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.3.self_attn.k_proj.weight : tensor<128x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.3.self_attn.v_proj.weight : tensor<128x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.3.self_attn.q_norm.weight : tensor<64xf32> {decay = false, init = "zero"}
  qwen.parameter @model.layers.3.self_attn.k_norm.weight : tensor<64xf32> {decay = false, init = "zero"}
  qwen.parameter @model.layers.3.self_attn.o_proj.weight : tensor<256x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.3.post_attention_layernorm.weight : tensor<256xf32> {decay = false, init = "zero"}
  qwen.parameter @model.layers.3.mlp.gate_proj.weight : tensor<768x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.3.mlp.up_proj.weight : tensor<768x256xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.3.mlp.down_proj.weight : tensor<256x768xf32> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.norm.weight : tensor<256xf32> {decay = false, init = "zero"}
  func.func private @gdn_layer(%x: tensor<128x256xf32>, %cu_seqlens: tensor<9xi32>, %input_layernorm.weight: tensor<256xf32>, %in_proj_qkv.weight: tensor<512x256xf32>, %in_proj_z.weight: tensor<256x256xf32>, %in_proj_b.weight: tensor<8x256xf32>, %in_proj_a.weight: tensor<8x256xf32>, %conv1d.weight: tensor<512x1x4xf32>, %A_log: tensor<8xf32>, %dt_bias: tensor<8xf32>, %norm.weight: tensor<32xf32>, %out_proj.weight: tensor<256x256xf32>, %post_attention_layernorm.weight: tensor<256xf32>, %gate_proj.weight: tensor<768x256xf32>, %up_proj.weight: tensor<768x256xf32>, %down_proj.weight: tensor<256x768xf32>) -> tensor<128x256xf32> {
    %h = qwen.rms_norm %x, %input_layernorm.weight {eps = 9.9999999999999995E-7 : f64, offset = 1.000000e+00 : f64} : tensor<128x256xf32>, tensor<256xf32> -> tensor<128x256xf32>
    %in_proj_qkv = qwen.linear %h, %in_proj_qkv.weight : tensor<128x256xf32>, tensor<512x256xf32> -> tensor<128x512xf32>
    %in_proj_z = qwen.linear %h, %in_proj_z.weight : tensor<128x256xf32>, tensor<256x256xf32> -> tensor<128x256xf32>
    %in_proj_b = qwen.linear %h, %in_proj_b.weight : tensor<128x256xf32>, tensor<8x256xf32> -> tensor<128x8xf32>
    %in_proj_a = qwen.linear %h, %in_proj_a.weight : tensor<128x256xf32>, tensor<8x256xf32> -> tensor<128x8xf32>
    %conv1d = qwen.causal_conv1d %in_proj_qkv, %conv1d.weight, %cu_seqlens : tensor<128x512xf32>, tensor<512x1x4xf32>, tensor<9xi32> -> tensor<128x512xf32>
    %qkv:3 = qwen.split %conv1d : tensor<128x512xf32> -> tensor<128x128xf32>, tensor<128x128xf32>, tensor<128x256xf32>
    %q = qwen.reshape %qkv#0 : tensor<128x128xf32> -> tensor<128x4x32xf32>
    %k = qwen.reshape %qkv#1 : tensor<128x128xf32> -> tensor<128x4x32xf32>
    %v = qwen.reshape %qkv#2 : tensor<128x256xf32> -> tensor<128x8x32xf32>
    %0 = qwen.sigmoid %in_proj_b : tensor<128x8xf32>
    %1 = math.exp %A_log : tensor<8xf32>
    %2 = arith.negf %1 : tensor<8xf32>
    %3 = qwen.broadcast %2 dims = [1] : tensor<8xf32> -> tensor<128x8xf32>
    %4 = qwen.broadcast %dt_bias dims = [1] : tensor<8xf32> -> tensor<128x8xf32>
    %5 = arith.addf %in_proj_a, %4 : tensor<128x8xf32>
    %6 = qwen.softplus %5 : tensor<128x8xf32>
    %g = arith.mulf %3, %6 : tensor<128x8xf32>
    %gated_delta = qwen.gated_delta %q, %k, %v, %g, %0, %cu_seqlens {l2norm_eps = 9.9999999999999995E-7 : f64, scale = 0.17677669529663687 : f64} : tensor<128x4x32xf32>, tensor<128x4x32xf32>, tensor<128x8x32xf32>, tensor<128x8xf32>, tensor<128x8xf32>, tensor<9xi32> -> tensor<128x8x32xf32>
    %norm = qwen.rms_norm %gated_delta, %norm.weight {eps = 9.9999999999999995E-7 : f64, offset = 0.000000e+00 : f64} : tensor<128x8x32xf32>, tensor<32xf32> -> tensor<128x8x32xf32>
    %z = qwen.reshape %in_proj_z : tensor<128x256xf32> -> tensor<128x8x32xf32>
    %7 = qwen.sigmoid %z : tensor<128x8x32xf32>
    %8 = arith.mulf %z, %7 : tensor<128x8x32xf32>
    %9 = arith.mulf %norm, %8 : tensor<128x8x32xf32>
    %heads = qwen.reshape %9 : tensor<128x8x32xf32> -> tensor<128x256xf32>
    %out_proj = qwen.linear %heads, %out_proj.weight : tensor<128x256xf32>, tensor<256x256xf32> -> tensor<128x256xf32>
    %mixed = arith.addf %x, %out_proj : tensor<128x256xf32>
    %h_0 = qwen.rms_norm %mixed, %post_attention_layernorm.weight {eps = 9.9999999999999995E-7 : f64, offset = 1.000000e+00 : f64} : tensor<128x256xf32>, tensor<256xf32> -> tensor<128x256xf32>
    %gate_proj = qwen.linear %h_0, %gate_proj.weight : tensor<128x256xf32>, tensor<768x256xf32> -> tensor<128x768xf32>
    %up_proj = qwen.linear %h_0, %up_proj.weight : tensor<128x256xf32>, tensor<768x256xf32> -> tensor<128x768xf32>
    %10 = qwen.sigmoid %gate_proj : tensor<128x768xf32>
    %11 = arith.mulf %gate_proj, %10 : tensor<128x768xf32>
    %12 = arith.mulf %11, %up_proj : tensor<128x768xf32>
    %down_proj = qwen.linear %12, %down_proj.weight : tensor<128x768xf32>, tensor<256x768xf32> -> tensor<128x256xf32>
    %out = arith.addf %mixed, %down_proj : tensor<128x256xf32>
    return %out : tensor<128x256xf32>
  }
  func.func private @attention_layer(%x: tensor<128x256xf32>, %rope_angles: tensor<128x16xf32>, %cu_seqlens: tensor<9xi32>, %input_layernorm.weight: tensor<256xf32>, %q_proj.weight: tensor<512x256xf32>, %k_proj.weight: tensor<128x256xf32>, %v_proj.weight: tensor<128x256xf32>, %q_norm.weight: tensor<64xf32>, %k_norm.weight: tensor<64xf32>, %o_proj.weight: tensor<256x256xf32>, %post_attention_layernorm.weight: tensor<256xf32>, %gate_proj.weight: tensor<768x256xf32>, %up_proj.weight: tensor<768x256xf32>, %down_proj.weight: tensor<256x768xf32>) -> tensor<128x256xf32> {
    %h = qwen.rms_norm %x, %input_layernorm.weight {eps = 9.9999999999999995E-7 : f64, offset = 1.000000e+00 : f64} : tensor<128x256xf32>, tensor<256xf32> -> tensor<128x256xf32>
    %q_proj = qwen.linear %h, %q_proj.weight : tensor<128x256xf32>, tensor<512x256xf32> -> tensor<128x512xf32>
    %k_proj = qwen.linear %h, %k_proj.weight : tensor<128x256xf32>, tensor<128x256xf32> -> tensor<128x128xf32>
    %v_proj = qwen.linear %h, %v_proj.weight : tensor<128x256xf32>, tensor<128x256xf32> -> tensor<128x128xf32>
    %q_gate_heads = qwen.reshape %q_proj : tensor<128x512xf32> -> tensor<128x4x128xf32>
    %q_gate:2 = qwen.split %q_gate_heads : tensor<128x4x128xf32> -> tensor<128x4x64xf32>, tensor<128x4x64xf32>
    %k_heads = qwen.reshape %k_proj : tensor<128x128xf32> -> tensor<128x2x64xf32>
    %v = qwen.reshape %v_proj : tensor<128x128xf32> -> tensor<128x2x64xf32>
    %q_norm = qwen.rms_norm %q_gate#0, %q_norm.weight {eps = 9.9999999999999995E-7 : f64, offset = 1.000000e+00 : f64} : tensor<128x4x64xf32>, tensor<64xf32> -> tensor<128x4x64xf32>
    %q_rope = qwen.rope %q_norm, %rope_angles : tensor<128x4x64xf32>, tensor<128x16xf32>
    %k_norm = qwen.rms_norm %k_heads, %k_norm.weight {eps = 9.9999999999999995E-7 : f64, offset = 1.000000e+00 : f64} : tensor<128x2x64xf32>, tensor<64xf32> -> tensor<128x2x64xf32>
    %k_rope = qwen.rope %k_norm, %rope_angles : tensor<128x2x64xf32>, tensor<128x16xf32>
    %attention, %attention_0 = qwen.attention %q_rope, %k_rope, %v, %cu_seqlens {scale = 1.250000e-01 : f64} : tensor<128x4x64xf32>, tensor<128x2x64xf32>, tensor<128x2x64xf32>, tensor<9xi32> -> tensor<128x4x64xf32>, tensor<128x4xf32>
    %0 = qwen.sigmoid %q_gate#1 : tensor<128x4x64xf32>
    %1 = arith.mulf %attention, %0 : tensor<128x4x64xf32>
    %heads = qwen.reshape %1 : tensor<128x4x64xf32> -> tensor<128x256xf32>
    %o_proj = qwen.linear %heads, %o_proj.weight : tensor<128x256xf32>, tensor<256x256xf32> -> tensor<128x256xf32>
    %mixed = arith.addf %x, %o_proj : tensor<128x256xf32>
    %h_1 = qwen.rms_norm %mixed, %post_attention_layernorm.weight {eps = 9.9999999999999995E-7 : f64, offset = 1.000000e+00 : f64} : tensor<128x256xf32>, tensor<256xf32> -> tensor<128x256xf32>
    %gate_proj = qwen.linear %h_1, %gate_proj.weight : tensor<128x256xf32>, tensor<768x256xf32> -> tensor<128x768xf32>
    %up_proj = qwen.linear %h_1, %up_proj.weight : tensor<128x256xf32>, tensor<768x256xf32> -> tensor<128x768xf32>
    %2 = qwen.sigmoid %gate_proj : tensor<128x768xf32>
    %3 = arith.mulf %gate_proj, %2 : tensor<128x768xf32>
    %4 = arith.mulf %3, %up_proj : tensor<128x768xf32>
    %down_proj = qwen.linear %4, %down_proj.weight : tensor<128x768xf32>, tensor<256x768xf32> -> tensor<128x256xf32>
    %out = arith.addf %mixed, %down_proj : tensor<128x256xf32>
    return %out : tensor<128x256xf32>
  }
  func.func @forward(%tokens: tensor<128xi32> {qwen.input = "tokens"}, %labels: tensor<128xi32> {qwen.input = "labels"}, %positions: tensor<128xi32> {qwen.input = "positions"}, %cu_seqlens: tensor<9xi32> {qwen.input = "cu_seqlens"}) -> (tensor<128xf32> {qwen.output = "nll"}) {
    %embed_tokens = qwen.get_parameter [@model.embed_tokens.weight] : tensor<2048x256xf32>
    %embedding = qwen.embedding %embed_tokens, %tokens : tensor<2048x256xf32>, tensor<128xi32> -> tensor<128x256xf32>
    %rope_angles = qwen.rope_angles %positions {theta = 1.000000e+07 : f64} : tensor<128xi32> -> tensor<128x16xf32>
    %input_layernorm.weight = qwen.get_parameter [@model.layers.0.input_layernorm.weight] : tensor<256xf32>
    %in_proj_qkv.weight = qwen.get_parameter [@model.layers.0.linear_attn.in_proj_qkv.weight] : tensor<512x256xf32>
    %in_proj_z.weight = qwen.get_parameter [@model.layers.0.linear_attn.in_proj_z.weight] : tensor<256x256xf32>
    %in_proj_b.weight = qwen.get_parameter [@model.layers.0.linear_attn.in_proj_b.weight] : tensor<8x256xf32>
    %in_proj_a.weight = qwen.get_parameter [@model.layers.0.linear_attn.in_proj_a.weight] : tensor<8x256xf32>
    %conv1d.weight = qwen.get_parameter [@model.layers.0.linear_attn.conv1d.weight] : tensor<512x1x4xf32>
    %A_log = qwen.get_parameter [@model.layers.0.linear_attn.A_log] : tensor<8xf32>
    %dt_bias = qwen.get_parameter [@model.layers.0.linear_attn.dt_bias] : tensor<8xf32>
    %norm.weight = qwen.get_parameter [@model.layers.0.linear_attn.norm.weight] : tensor<32xf32>
    %out_proj.weight = qwen.get_parameter [@model.layers.0.linear_attn.out_proj.weight] : tensor<256x256xf32>
    %post_attention_layernorm.weight = qwen.get_parameter [@model.layers.0.post_attention_layernorm.weight] : tensor<256xf32>
    %gate_proj.weight = qwen.get_parameter [@model.layers.0.mlp.gate_proj.weight] : tensor<768x256xf32>
    %up_proj.weight = qwen.get_parameter [@model.layers.0.mlp.up_proj.weight] : tensor<768x256xf32>
    %down_proj.weight = qwen.get_parameter [@model.layers.0.mlp.down_proj.weight] : tensor<256x768xf32>
    %layer0 = call @gdn_layer(%embedding, %cu_seqlens, %input_layernorm.weight, %in_proj_qkv.weight, %in_proj_z.weight, %in_proj_b.weight, %in_proj_a.weight, %conv1d.weight, %A_log, %dt_bias, %norm.weight, %out_proj.weight, %post_attention_layernorm.weight, %gate_proj.weight, %up_proj.weight, %down_proj.weight) : (tensor<128x256xf32>, tensor<9xi32>, tensor<256xf32>, tensor<512x256xf32>, tensor<256x256xf32>, tensor<8x256xf32>, tensor<8x256xf32>, tensor<512x1x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<32xf32>, tensor<256x256xf32>, tensor<256xf32>, tensor<768x256xf32>, tensor<768x256xf32>, tensor<256x768xf32>) -> tensor<128x256xf32>
    %input_layernorm.weight_0 = qwen.get_parameter [@model.layers.1.input_layernorm.weight] : tensor<256xf32>
    %in_proj_qkv.weight_1 = qwen.get_parameter [@model.layers.1.linear_attn.in_proj_qkv.weight] : tensor<512x256xf32>
    %in_proj_z.weight_2 = qwen.get_parameter [@model.layers.1.linear_attn.in_proj_z.weight] : tensor<256x256xf32>
    %in_proj_b.weight_3 = qwen.get_parameter [@model.layers.1.linear_attn.in_proj_b.weight] : tensor<8x256xf32>
    %in_proj_a.weight_4 = qwen.get_parameter [@model.layers.1.linear_attn.in_proj_a.weight] : tensor<8x256xf32>
    %conv1d.weight_5 = qwen.get_parameter [@model.layers.1.linear_attn.conv1d.weight] : tensor<512x1x4xf32>
    %A_log_6 = qwen.get_parameter [@model.layers.1.linear_attn.A_log] : tensor<8xf32>
    %dt_bias_7 = qwen.get_parameter [@model.layers.1.linear_attn.dt_bias] : tensor<8xf32>
    %norm.weight_8 = qwen.get_parameter [@model.layers.1.linear_attn.norm.weight] : tensor<32xf32>
    %out_proj.weight_9 = qwen.get_parameter [@model.layers.1.linear_attn.out_proj.weight] : tensor<256x256xf32>
    %post_attention_layernorm.weight_10 = qwen.get_parameter [@model.layers.1.post_attention_layernorm.weight] : tensor<256xf32>
    %gate_proj.weight_11 = qwen.get_parameter [@model.layers.1.mlp.gate_proj.weight] : tensor<768x256xf32>
    %up_proj.weight_12 = qwen.get_parameter [@model.layers.1.mlp.up_proj.weight] : tensor<768x256xf32>
    %down_proj.weight_13 = qwen.get_parameter [@model.layers.1.mlp.down_proj.weight] : tensor<256x768xf32>
    %layer1 = call @gdn_layer(%layer0, %cu_seqlens, %input_layernorm.weight_0, %in_proj_qkv.weight_1, %in_proj_z.weight_2, %in_proj_b.weight_3, %in_proj_a.weight_4, %conv1d.weight_5, %A_log_6, %dt_bias_7, %norm.weight_8, %out_proj.weight_9, %post_attention_layernorm.weight_10, %gate_proj.weight_11, %up_proj.weight_12, %down_proj.weight_13) : (tensor<128x256xf32>, tensor<9xi32>, tensor<256xf32>, tensor<512x256xf32>, tensor<256x256xf32>, tensor<8x256xf32>, tensor<8x256xf32>, tensor<512x1x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<32xf32>, tensor<256x256xf32>, tensor<256xf32>, tensor<768x256xf32>, tensor<768x256xf32>, tensor<256x768xf32>) -> tensor<128x256xf32>
    %input_layernorm.weight_14 = qwen.get_parameter [@model.layers.2.input_layernorm.weight] : tensor<256xf32>
    %in_proj_qkv.weight_15 = qwen.get_parameter [@model.layers.2.linear_attn.in_proj_qkv.weight] : tensor<512x256xf32>
    %in_proj_z.weight_16 = qwen.get_parameter [@model.layers.2.linear_attn.in_proj_z.weight] : tensor<256x256xf32>
    %in_proj_b.weight_17 = qwen.get_parameter [@model.layers.2.linear_attn.in_proj_b.weight] : tensor<8x256xf32>
    %in_proj_a.weight_18 = qwen.get_parameter [@model.layers.2.linear_attn.in_proj_a.weight] : tensor<8x256xf32>
    %conv1d.weight_19 = qwen.get_parameter [@model.layers.2.linear_attn.conv1d.weight] : tensor<512x1x4xf32>
    %A_log_20 = qwen.get_parameter [@model.layers.2.linear_attn.A_log] : tensor<8xf32>
    %dt_bias_21 = qwen.get_parameter [@model.layers.2.linear_attn.dt_bias] : tensor<8xf32>
    %norm.weight_22 = qwen.get_parameter [@model.layers.2.linear_attn.norm.weight] : tensor<32xf32>
    %out_proj.weight_23 = qwen.get_parameter [@model.layers.2.linear_attn.out_proj.weight] : tensor<256x256xf32>
    %post_attention_layernorm.weight_24 = qwen.get_parameter [@model.layers.2.post_attention_layernorm.weight] : tensor<256xf32>
    %gate_proj.weight_25 = qwen.get_parameter [@model.layers.2.mlp.gate_proj.weight] : tensor<768x256xf32>
    %up_proj.weight_26 = qwen.get_parameter [@model.layers.2.mlp.up_proj.weight] : tensor<768x256xf32>
    %down_proj.weight_27 = qwen.get_parameter [@model.layers.2.mlp.down_proj.weight] : tensor<256x768xf32>
    %layer2 = call @gdn_layer(%layer1, %cu_seqlens, %input_layernorm.weight_14, %in_proj_qkv.weight_15, %in_proj_z.weight_16, %in_proj_b.weight_17, %in_proj_a.weight_18, %conv1d.weight_19, %A_log_20, %dt_bias_21, %norm.weight_22, %out_proj.weight_23, %post_attention_layernorm.weight_24, %gate_proj.weight_25, %up_proj.weight_26, %down_proj.weight_27) : (tensor<128x256xf32>, tensor<9xi32>, tensor<256xf32>, tensor<512x256xf32>, tensor<256x256xf32>, tensor<8x256xf32>, tensor<8x256xf32>, tensor<512x1x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<32xf32>, tensor<256x256xf32>, tensor<256xf32>, tensor<768x256xf32>, tensor<768x256xf32>, tensor<256x768xf32>) -> tensor<128x256xf32>
    %input_layernorm.weight_28 = qwen.get_parameter [@model.layers.3.input_layernorm.weight] : tensor<256xf32>
    %q_proj.weight = qwen.get_parameter [@model.layers.3.self_attn.q_proj.weight] : tensor<512x256xf32>
    %k_proj.weight = qwen.get_parameter [@model.layers.3.self_attn.k_proj.weight] : tensor<128x256xf32>
    %v_proj.weight = qwen.get_parameter [@model.layers.3.self_attn.v_proj.weight] : tensor<128x256xf32>
    %q_norm.weight = qwen.get_parameter [@model.layers.3.self_attn.q_norm.weight] : tensor<64xf32>
    %k_norm.weight = qwen.get_parameter [@model.layers.3.self_attn.k_norm.weight] : tensor<64xf32>
    %o_proj.weight = qwen.get_parameter [@model.layers.3.self_attn.o_proj.weight] : tensor<256x256xf32>
    %post_attention_layernorm.weight_29 = qwen.get_parameter [@model.layers.3.post_attention_layernorm.weight] : tensor<256xf32>
    %gate_proj.weight_30 = qwen.get_parameter [@model.layers.3.mlp.gate_proj.weight] : tensor<768x256xf32>
    %up_proj.weight_31 = qwen.get_parameter [@model.layers.3.mlp.up_proj.weight] : tensor<768x256xf32>
    %down_proj.weight_32 = qwen.get_parameter [@model.layers.3.mlp.down_proj.weight] : tensor<256x768xf32>
    %layer3 = call @attention_layer(%layer2, %rope_angles, %cu_seqlens, %input_layernorm.weight_28, %q_proj.weight, %k_proj.weight, %v_proj.weight, %q_norm.weight, %k_norm.weight, %o_proj.weight, %post_attention_layernorm.weight_29, %gate_proj.weight_30, %up_proj.weight_31, %down_proj.weight_32) : (tensor<128x256xf32>, tensor<128x16xf32>, tensor<9xi32>, tensor<256xf32>, tensor<512x256xf32>, tensor<128x256xf32>, tensor<128x256xf32>, tensor<64xf32>, tensor<64xf32>, tensor<256x256xf32>, tensor<256xf32>, tensor<768x256xf32>, tensor<768x256xf32>, tensor<256x768xf32>) -> tensor<128x256xf32>
    %norm = qwen.get_parameter [@model.norm.weight] : tensor<256xf32>
    %hidden = qwen.rms_norm %layer3, %norm {eps = 9.9999999999999995E-7 : f64, offset = 1.000000e+00 : f64} : tensor<128x256xf32>, tensor<256xf32> -> tensor<128x256xf32>
    %lm_head = qwen.get_parameter [@model.embed_tokens.weight] : tensor<2048x256xf32>
    %nll = qwen.linear_cross_entropy %hidden, %lm_head, %labels : tensor<128x256xf32>, tensor<2048x256xf32>, tensor<128xi32> -> tensor<128xf32>
    return %nll : tensor<128xf32>
  }
}
