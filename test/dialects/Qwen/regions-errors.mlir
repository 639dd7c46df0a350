// Convolution, gated delta rule and attention with shapes that do not fit.
// RUN: qwen-opt %s -split-input-file -verify-diagnostics

func.func @conv_taps(%x: tensor<8x6xf32>, %w: tensor<6x4xf32>, %cu: tensor<3xi32>) {
  // expected-error @+1 {{'qwen.causal_conv1d' op w must have shape [channels, 1, width], but is 'tensor<6x4xf32>'}}
  %y = qwen.causal_conv1d %x, %w, %cu : tensor<8x6xf32>, tensor<6x4xf32>, tensor<3xi32> -> tensor<8x6xf32>
  return
}

// -----

func.func @conv_channels(%x: tensor<8x6xf32>, %w: tensor<5x1x4xf32>, %cu: tensor<3xi32>) {
  // expected-error @+1 {{'qwen.causal_conv1d' op w must be 'tensor<6x1x4xf32>', but is 'tensor<5x1x4xf32>'}}
  %y = qwen.causal_conv1d %x, %w, %cu : tensor<8x6xf32>, tensor<5x1x4xf32>, tensor<3xi32> -> tensor<8x6xf32>
  return
}

// -----

func.func @delta_heads(%q: tensor<8x2x4xf32>, %v: tensor<8x3x4xf32>, %g: tensor<8x3xf32>, %cu: tensor<3xi32>) {
  // expected-error @+1 {{'qwen.gated_delta' op the value heads of v (3) must be a multiple of the key heads of q (2)}}
  %o = qwen.gated_delta %q, %q, %v, %g, %g, %cu {l2norm_eps = 1.0e-6 : f64, scale = 0.5 : f64} : tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x3x4xf32>, tensor<8x3xf32>, tensor<8x3xf32>, tensor<3xi32> -> tensor<8x3x4xf32>
  return
}

// -----

func.func @delta_decay(%q: tensor<8x2x4xf32>, %g: tensor<8x2x4xf32>, %b: tensor<8x2xf32>, %cu: tensor<3xi32>) {
  // expected-error @+1 {{'qwen.gated_delta' op g must be 'tensor<8x2xf32>', but is 'tensor<8x2x4xf32>'}}
  %o = qwen.gated_delta %q, %q, %q, %g, %b, %cu {l2norm_eps = 1.0e-6 : f64, scale = 0.5 : f64} : tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2xf32>, tensor<3xi32> -> tensor<8x2x4xf32>
  return
}

// -----

func.func @delta_chunk(%q: tensor<8x2x4xf32>, %g: tensor<8x2xf32>, %cu: tensor<3xi32>) {
  // expected-error @+1 {{'qwen.gated_delta' op chunk must be a power of two between 16 and 128, but is 48}}
  %o = qwen.gated_delta %q, %q, %q, %g, %g, %cu {chunk = 48 : i64, l2norm_eps = 1.0e-6 : f64, scale = 0.5 : f64} : tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2xf32>, tensor<8x2xf32>, tensor<3xi32> -> tensor<8x2x4xf32>
  return
}

// -----

func.func @delta_grad(%q: tensor<8x2x4xf32>, %g: tensor<8x2xf32>, %cu: tensor<3xi32>) {
  // expected-error @+1 {{'qwen.gated_delta_grad' op dk must be 'tensor<8x2x4xf32>', but is 'tensor<8x2x5xf32>'}}
  %d:5 = qwen.gated_delta_grad %q, %q, %q, %g, %g, %q, %cu {chunk = 64 : i64, l2norm_eps = 1.0e-6 : f64, scale = 0.5 : f64} : tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2xf32>, tensor<8x2xf32>, tensor<8x2x4xf32>, tensor<3xi32> -> tensor<8x2x4xf32>, tensor<8x2x5xf32>, tensor<8x2x4xf32>, tensor<8x2xf32>, tensor<8x2xf32>
  return
}

// -----

func.func @attention_heads(%q: tensor<8x3x4xf32>, %k: tensor<8x2x4xf32>, %cu: tensor<3xi32>) {
  // expected-error @+1 {{'qwen.attention' op the heads of q (3) must be a multiple of the heads of k (2)}}
  %o, %lse = qwen.attention %q, %k, %k, %cu {scale = 0.5 : f64} : tensor<8x3x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<3xi32> -> tensor<8x3x4xf32>, tensor<8x3xf32>
  return
}

// -----

func.func @attention_dim(%q: tensor<8x2x4xf32>, %k: tensor<8x2x5xf32>, %cu: tensor<3xi32>) {
  // expected-error @+1 {{'qwen.attention' op k must be 'tensor<8x2x4xf32>', but is 'tensor<8x2x5xf32>'}}
  %o, %lse = qwen.attention %q, %k, %k, %cu {scale = 0.5 : f64} : tensor<8x2x4xf32>, tensor<8x2x5xf32>, tensor<8x2x5xf32>, tensor<3xi32> -> tensor<8x2x4xf32>, tensor<8x2xf32>
  return
}

// -----

func.func @attention_lse(%q: tensor<8x2x4xbf16>, %cu: tensor<3xi32>) {
  // expected-error @+1 {{'qwen.attention' op lse must be 'tensor<8x2xf32>', but is 'tensor<2x8xf32>'}}
  %o, %lse = qwen.attention %q, %q, %q, %cu {scale = 0.5 : f64} : tensor<8x2x4xbf16>, tensor<8x2x4xbf16>, tensor<8x2x4xbf16>, tensor<3xi32> -> tensor<8x2x4xbf16>, tensor<2x8xf32>
  return
}

// -----

func.func @attention_scale(%q: tensor<8x2x4xf32>, %cu: tensor<3xi32>) {
  // expected-error @+1 {{'qwen.attention' op requires attribute 'scale'}}
  %o, %lse = qwen.attention %q, %q, %q, %cu : tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<3xi32> -> tensor<8x2x4xf32>, tensor<8x2xf32>
  return
}
