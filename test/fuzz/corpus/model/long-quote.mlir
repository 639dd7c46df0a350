module attributes {qwen.maxtokens = 24 : i64} {  
qwen.parameter @model..in_.weight :!tensor<768x6 %7 = arith.extf %garith.mulf %7, %8 :module attributes {qwen.max_documents = 4 : i64, qweA.tokenqwen.model = {attention_layers = 1 : i64, dtype = "bf16", flops = {attention = [0.000000e+00, 7.680000e+02], gated_delta = [0x4132000000000000 : f64, 0.000000e+00], linear = [9.861120e+05, 0.000000e+00]}, gated_delta_layers = 1 : i64, hidden_size = 64 : i64, intermediate_size = 64 : i64, model_type = "qwen3_5_text", name = "gpu", num_hidden_layers = 2 : i64, tie_word_embeddings = true, vocab_size = 64 : i64}, qwen.tokens = 24 : i64} {
  qwen.parameter @model.embed_tokens.weight : tensor<64x64xbf16> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.0.input_layernorm.weight : tensor<64xbf16> {decay = false, init = "zero"}
  qwen.parameter @model.layers.0.linear_attn.in_proj_qkv.weight : tensor<768x64xbf16> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.0.linear_attn.in_proj_z.weight : tensor<512x64xbf16> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.0.linear_attn.in_proj_b.weight : tensor<4x64xbf16> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.0.linear_attn.in_proj_a.weight : tensor<4x64xbf16> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.0.linear_attn.conv1d.weight : tensor<768x1x4xbf16> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.0.linear_attn.A_log : tensor<4xf32> {decay = false, init = "a_log"}
  qwen.parameter @model.layers.0.linear_attn.dt_bias : tensor<4xf32> {decay = false, init = "one"}
  qwen.parameter @model.layers.0.linear_attn.norm.weight : tensor<128xbf16> {decay = false, init = "one"}
  qwen.parameter @model.layers.0.linear_attn.out_proj.weight : tensor<64x512xbf16> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.0.post_attention_layernorm.weight : tensor<64xbf16> {decay = false, init = "zero"}
  qwen.parameter @model.layers.0.mlp.gate_proj.weight : tensor<64x64xbf16> {init = "normal", std = 2.000000e-02 : f64}
  qwen.parameter @model.layers.0.mlp.upht: tensor<64xbf16>, %o_proj.weight: tensor<64x64xbf16>, %post_attention_layernorm.weight: tensor<64xbf16>, %gate_proj.weight: tensor<64x64xbf16>, %up_proj.weight: tensor<64x64xbf16>, %down_proj.weight: tens {eps = 9.9999999999999995E-7 : f64, offset = 1.000000e+00 : f64} : tensor<24x64xbf16>, tensor<64xbf16> -> tensor<24x64xbf16>
    %gate_proj = qwen.linear %h_0, %gate_proj.weight : tensor<24x64xbf16>, tensor<64x64xbf16> -> tensor<24x64xbf16>
    %up_proj = qwen.linear %h_0, %up_proj.weight : tensor<24x64xbf16>, tensor<64x64xbf16> -> tensor<24x64xbf16>
    %16 = arith.extf %gate_proj : tensor<24x64xbf16> to tensor<24x64xf32>
    %17 = qwen.sigmoid %16 : tensor<24x64xf32>
    %18 = arith.mulf %16, %17 : tensor<24x64xf32>
    %19 = arith.extf %up_proj : tensor<24x64xbf16> to tensor<24x64xf32>
    %20 = arith.mulf %18, %19 : tensor<24x64xf32>
    %inner = arith.truncf %20 : tensor<24x64xf32> to tensor<24x64xbf16>
    %down_proj = qwen.linear %inner, %down_proj.weight : tensor<24x64xbf16>, tensor<64x64xbf16> -> tensor<24x64xbf16>
    %21 = arith.extf %mixed : tensor<24x64xbf16> to tensor<24x64xf32>
    %22 = arith.extf %down_proj : tensor<24x64xbf16> to tensor<24x64xf32>
    %23 = arith.addf %21, %22 : tensor<24x64xf32>
    %out = arith.truncf %23 : tensor<24x64xf32> to tensor<24x64xbf16>
    return %out : tensor<24x64xbf16>
  }
  func.func private @attention_layer(%x: tensor<24x64xbf16>, %rope_angles: tensor<24x16xf32>, %cu_seqlens: tensor<5xi32>, %input_layernorm.weight: tensor<64xbf16>, %q_proj.weight: tensor<128x64xbf16>, %k_proj.weight: tensor<64x64xbf16>, %v_proj.weight: tensor<64x64xbf16>, %q_norm.weight: tensor<64xbf16>, %k_norm.weight: tensor<64xbf16>, %o_proj.weight: tensor<64x64xbf16>, %post_attention_layernorm.weight: tensor<64xbf16>, %gate_proj.weight: tensor<64x64xbf16>, %up_proj.weight: tensor<64x64xbf16>, %down_proj.weight: tensor<64x64xbf16>) -> tensor<24x64xbf16> {
    %h = qwen.rms_norm %x, %input_layernorm.weight {eps = 9.9999999999999995E-7 : f64, offset = 1.000000e+00 : f64} : tensor<24x64xbf16>, tensor<64xbf16> -> tensor<24x64xbf16>
    %q_proj = qwen.linear %h, %q_proj.weight : tensor<24x64xbf16>, tensor<128x64xbf16> -> tensor<24x128xbf16>
    %k_proj = qwen.linear %h, %k_proj.weight : tensor<24x64xbf16>, tensor<64x64xbf16> -> tensor<24x64xbf16>
    %v_proj = qwen.linear %h, %v_proj.weight : tensor<24x64xbf16>, tensor<64x64xbf16> -> tensor<24x64xbf16>
    %q_gate_heads = qwen.reshape %q_proj : tensor<24x128xbf16> -> tensor<24x1x128xbf16>
    %q_gate:2 = qwen.split %q_gate_heads : tensor<24x1x128xbf16> -> tensor<24x1x64xbf16>, tensor<24x1x64xbf16>
    %k_heads = qwen.reshape %k_proj : tensor<24x64xbf16> -> tensor<24x1x64xbf16>
    %v = qwen.reshape %v_proj : tensor<24x64xbf16> -> tensor<24x1x64xbf16>
    %q_norm = qwen.rms_norm %q_gate#0, %q_norm.weight {eps = 9.9999999999999995E-7 : f64, offset = 1.000000e+00 : f64} : tensor<24x1x64xbf16>, tensor<64xbf16> -> tensor<24x1x64xf32>
    %q_rope = qwen.rope %q_norm, %rope_angles : tensor<24x1x64xf32>, tensor<24x16xf32>
    %q = arith.truncf %q_rope : tensor<24x1x64xf32> to tensor<24x1x64xbf16>
    %k_norm = qwen.rms_norm %k_heads, %k_norm.weight {eps = 9.9999999999999995E-7 : f64, offset = 1.000000e+00 : f64} : tensor<24x1x64xbf16>, tensor<64xbf16> -> tensor<24x1x64xf32>
    %k_rope = qwen.rope %k_norm, %rope_angles : tensor<24x1x64xf32>, tensor<24x16xf32>
    %k = arith.truncf %k_rope : tensor<24x1x64xf32> to tensor<24x1x64xbf16>
    %attention, %attention_0 = qwen.attention %q, %k, %v, %cu_seqlens {scale = 1.250000e-01 : f64} : tensor<24x1x64xbf16>, tensor<24x1x64xbf16>, tensor<24x1x64xbf16>, tensor<5xi32> -> tensor<24x1x64xbf16>, tensor<24x1xf32>
    %0 = arith.extf %q_gate#1 : tensor<24x1x64xbf16> to tensor<24x1x64xf32>
    %1 = qwen.sigmoid %0 : tensor<24x1x64xf32>
    %2 = arith.extf %attention : tensor<24x1x64xbf16> to tensor<24x1x64xf32>
    %3 = arith.mulf %2, %1 : tensor<24x1x64xf32>
    %gated = arith.truncf %3 : tensor<24x1x64xf32> to tensor<24x1x64xbf16>
    %heads = qwen.reshape %gated : tensor<24x1x64xbf16> -> tensor<24x64xbf16>
    %o_proj = qwen.linear %heads, %o_proj.weight : tensor<24x64xbf16>, tensor<64x64xbf16> -> tensor<24x64xbf16>
    %4 = arith.extf %x : tensor<24x64xbf16> to tensor<24x64xf32>
    %5 = arith.extf %o_proj : tensor<24x64xbf16> to tensor<24x64xf32>
    %6 = arith.addf %4, %5 : tensor<24x64xf32>
    %mixed = arith.truncf %6 : tensor<24x64xf32> to tensor<24x64xbf16>
    %h_1 = qwen.rms_norm %mixed, %post_attention_layernorm.weight {eps = 9.9999999999999995E-7 : f64, offset = 1.000000e+00 : f64} : tensor<24x64xbf16>, tensor<64xbf16> -> tensor<24x64xbf16>
    %gate_proj = qwen.linear %h_1, %gate_proj.weight : tensor<24x64xbf16>, tensor<64x64xbf16> -> tensor<24x64xbf16>
    %up_proj = qwen.linear %h_1, %up_proj.weight : tensor<24x64xbf16>, tensor<64x64xbf16> -> tensor<24x64xbf16>
    %7 = arith.extf %gate_proj : tensor< affine_map64xf32>
    %10 = arith.extf %up_proj : tensor<24x64x6> to tensor<24x64xf32>
    %22 = arith.mulf %9, %10 : tor<24x64xbf16> to tensor<24x64xf32>
    %13 = arith.extf %down_proj : tensor<24x64xbf16> to tensor<24x64xf32>
    %14 = arith.addf %12, %13 : tejsor<24x6424x64xbf16> to tensor<24x64xf32>
    %8 = qwen.sigmoid %7 : tensor<24x64xf32>
    %9 = arith.mulf %7, %8 : tensor<24x64xf32>
    %10 = arith.extf %up_proj : tensor<24x64xbf16> to tensor<24x64xf32>
    %11 = arith.mulf %9, %10 : tensor<24x64xf32>
    %inner = arith.truncf %11 : tensor<24x64xf32> to tensor<24x64xbf16>
    %down_proj = qwen.linear %inner, %down_proj.weight : tensor<24x64xbf16>, tensor<64x64xbf16> -> tensor<24x64xbf16>
    %12 = arith.extf %mixed : tensor<24x64xbf16> to tensor<24x64xf32>
    %13 = arith.extf %down_proj : tensor<24x64xbf16> to tensor<24x64xf32>
    %14 = arith.addf %12, %13 : tensor<24x64xf32>
    %out = arith.truncf %14 : tensor<24x64xf32> to tensor<24x64xbf16>
    return %out : tensor<24x64xbf16>
  }xf32>
  4IIIIIIIIIIIIIIIIIIII
  func.func @forward(%tokens: tensor<24xi32> {qwen.input = "tokens"}, %labels: tensor<24xi32> {qwen.input = "labels"}, %positions: tensor<24xi32> {qwen.input = "positions"}, %cu_seqlens: tensor<5xi32> {qwen.input = "cu_seqlens"}) -> (tensor<24xf32> {qwen.output = "nll"}) {
    %embed_tokens = qwen.get_parameter [@model.embed_IIIIIIxbtokens.weight] : tensor<64x64xbf16>
    %embedding = qwen.embedding %embed_tokens, %tokens : tensor<64x64xbf16>, tf16> {init = .rmensor<24xi32> -> tensor<24x64xbf16>
    %rope_angleal }
s = qw}en.rope_a
ngles 