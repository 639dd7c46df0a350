// Element types that an op does not take.
// RUN: qwen-opt %s -split-input-file -verify-diagnostics

func.func @half(%x: tensor<8x4xf16>) {
  // expected-error @+1 {{'qwen.sigmoid' op operand #0 must be ranked tensor of 32-bit float or bfloat16 type or 64-bit float values, but got 'tensor<8x4xf16>'}}
  %y = qwen.sigmoid %x : tensor<8x4xf16>
  return
}

// -----

func.func @mixed(%x: tensor<8x4xf32>, %w: tensor<6x4xbf16>) {
  // expected-error @+1 {{'qwen.linear' op w must be 'tensor<6x4xf32>', but is 'tensor<6x4xbf16>'}}
  %y = qwen.linear %x, %w : tensor<8x4xf32>, tensor<6x4xbf16> -> tensor<8x6xf32>
  return
}

// -----

func.func @ids(%table: tensor<16x4xf32>, %ids: tensor<8xi64>) {
  // expected-error @+1 {{'qwen.embedding' op operand #1 must be ranked tensor of 32-bit signless integer values, but got 'tensor<8xi64>'}}
  %y = qwen.embedding %table, %ids : tensor<16x4xf32>, tensor<8xi64> -> tensor<8x4xf32>
  return
}

// -----

func.func @narrow_rope(%x: tensor<8x2x4xbf16>, %a: tensor<8x2xbf16>) {
  // expected-error @+1 {{custom op 'qwen.rope' 'x' must be ranked tensor of 32-bit float or 64-bit float values, but got 'tensor<8x2x4xbf16>'}}
  %y = qwen.rope %x, %a : tensor<8x2x4xbf16>, tensor<8x2xbf16>
  return
}

// -----

func.func @narrow_decay(%q: tensor<8x2x4xbf16>, %v: tensor<8x2x4xbf16>, %g: tensor<8x2xf64>, %beta: tensor<8x2xbf16>, %cu: tensor<3xi32>) {
  // expected-error @+1 {{'qwen.gated_delta' op g must be 'tensor<8x2xf32>', but is 'tensor<8x2xf64>'}}
  %o = qwen.gated_delta %q, %q, %v, %g, %beta, %cu {l2norm_eps = 1.0e-6 : f64, scale = 0.5 : f64} : tensor<8x2x4xbf16>, tensor<8x2x4xbf16>, tensor<8x2x4xbf16>, tensor<8x2xf64>, tensor<8x2xbf16>, tensor<3xi32> -> tensor<8x2x4xbf16>
  return
}

// -----

func.func @narrowed(%a: tensor<8x4xf32>, %b: tensor<4x2xf32>) {
  // expected-error @+1 {{'qwen.matmul' op c must be 'tensor<8x2xf32>', but is 'tensor<8x2xbf16>'}}
  %c = qwen.matmul %a, %b : tensor<8x4xf32>, tensor<4x2xf32> -> tensor<8x2xbf16>
  return
}

// -----

func.func @norm(%x: tensor<8x4xf64>, %w: tensor<4xf32>) {
  // expected-error @+1 {{'qwen.rms_norm' op w must have shape [4] and f64 elements, but is 'tensor<4xf32>'}}
  %y = qwen.rms_norm %x, %w {eps = 1.0e-6 : f64, offset = 1.0 : f64} : tensor<8x4xf64>, tensor<4xf32> -> tensor<8x4xf64>
  return
}

// -----

func.func @loss(%x: tensor<8x4xbf16>, %w: tensor<16x4xbf16>, %labels: tensor<8xi32>) {
  // expected-error @+1 {{'qwen.linear_cross_entropy' op nll must be 'tensor<8xf32>', but is 'tensor<8xf64>'}}
  %nll = qwen.linear_cross_entropy %x, %w, %labels : tensor<8x4xbf16>, tensor<16x4xbf16>, tensor<8xi32> -> tensor<8xf64>
  return
}
