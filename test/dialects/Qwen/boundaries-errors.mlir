// Ops that mix tokens must see the document boundaries.
// RUN: qwen-opt %s -split-input-file -verify-diagnostics

func.func @conv(%x: tensor<8x6xf32>, %w: tensor<6x1x4xf32>) {
  // expected-error @+1 {{expected ',' and the document boundaries (cu_seqlens) as the last operand: without them one packed document would leak into the next}}
  %y = qwen.causal_conv1d %x, %w : tensor<8x6xf32>, tensor<6x1x4xf32> -> tensor<8x6xf32>
  return
}

// -----

func.func @gated_delta(%q: tensor<8x2x4xf32>, %g: tensor<8x2xf32>) {
  // expected-error @+1 {{expected ',' and the document boundaries (cu_seqlens) as the last operand}}
  %o = qwen.gated_delta %q, %q, %q, %g, %g {l2norm_eps = 1.0e-6 : f64, scale = 0.5 : f64} : tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2xf32>, tensor<8x2xf32> -> tensor<8x2x4xf32>
  return
}

// -----

func.func @attention(%q: tensor<8x2x4xf32>) {
  // expected-error @+1 {{expected ',' and the document boundaries (cu_seqlens) as the last operand}}
  %o, %lse = qwen.attention %q, %q, %q {scale = 0.5 : f64} : tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32> -> tensor<8x2x4xf32>, tensor<8x2xf32>
  return
}

// -----

// In the generic form the operand count says it.
func.func @generic(%x: tensor<8x6xf32>, %w: tensor<6x1x4xf32>) {
  // expected-error @+1 {{'qwen.causal_conv1d' op expected 3 operands, but found 2}}
  %y = "qwen.causal_conv1d"(%x, %w) : (tensor<8x6xf32>, tensor<6x1x4xf32>) -> tensor<8x6xf32>
  return
}

// -----

func.func @one_slot(%x: tensor<8x6xf32>, %w: tensor<6x1x4xf32>, %cu: tensor<1xi32>) {
  // expected-error @+1 {{'qwen.causal_conv1d' op cu_seqlens must hold at least 2 boundaries, the begin and end of one document, but is 'tensor<1xi32>'}}
  %y = qwen.causal_conv1d %x, %w, %cu : tensor<8x6xf32>, tensor<6x1x4xf32>, tensor<1xi32> -> tensor<8x6xf32>
  return
}

// -----

func.func @float_boundaries(%x: tensor<8x6xf32>, %w: tensor<6x1x4xf32>, %cu: tensor<3xf32>) {
  // expected-error @+1 {{'qwen.causal_conv1d' op operand #2 must be ranked tensor of 32-bit signless integer values, but got 'tensor<3xf32>'}}
  %y = qwen.causal_conv1d %x, %w, %cu : tensor<8x6xf32>, tensor<6x1x4xf32>, tensor<3xf32> -> tensor<8x6xf32>
  return
}

// -----

func.func @matrix_boundaries(%q: tensor<8x2x4xf32>, %cu: tensor<1x3xi32>) {
  // expected-error @+1 {{'qwen.attention' op cu_seqlens must have shape [documents + 1], but is 'tensor<1x3xi32>'}}
  %o, %lse = qwen.attention %q, %q, %q, %cu {scale = 0.5 : f64} : tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<1x3xi32> -> tensor<8x2x4xf32>, tensor<8x2xf32>
  return
}
