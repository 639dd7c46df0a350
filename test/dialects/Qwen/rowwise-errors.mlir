// Row-wise and shape ops with operands that do not fit.
// RUN: qwen-opt %s -split-input-file -verify-diagnostics

func.func @norm(%x: tensor<8x4xf32>, %w: tensor<8xf32>) {
  // expected-error @+1 {{'qwen.rms_norm' op w must have shape [4] and f32 or bf16 elements, but is 'tensor<8xf32>'}}
  %y = qwen.rms_norm %x, %w {eps = 1.0e-6 : f64, offset = 1.0 : f64} : tensor<8x4xf32>, tensor<8xf32> -> tensor<8x4xf32>
  return
}

// -----

func.func @norm_eps(%x: tensor<8x4xf32>, %w: tensor<4xf32>) {
  // expected-error @+1 {{'qwen.rms_norm' op eps must be a positive finite number, but is 0.0}}
  %y = qwen.rms_norm %x, %w {eps = 0.0 : f64, offset = 1.0 : f64} : tensor<8x4xf32>, tensor<4xf32> -> tensor<8x4xf32>
  return
}

// -----

func.func @norm_attribute(%x: tensor<8x4xf32>, %w: tensor<4xf32>) {
  // expected-error @+1 {{'qwen.rms_norm' op attribute 'eps' failed to satisfy constraint: 64-bit float attribute}}
  %y = qwen.rms_norm %x, %w {eps = "small", offset = 1.0 : f64} : tensor<8x4xf32>, tensor<4xf32> -> tensor<8x4xf32>
  return
}

// -----

func.func @rope_odd(%x: tensor<8x2x4xf32>, %a: tensor<8x3xf32>) {
  // expected-error @+1 {{'qwen.rope' op the rotary width must be even, but angles is 'tensor<8x3xf32>'}}
  %y = qwen.rope %x, %a : tensor<8x2x4xf32>, tensor<8x3xf32>
  return
}

// -----

func.func @rope_wide(%x: tensor<8x2x4xf32>, %a: tensor<8x6xf32>) {
  // expected-error @+1 {{'qwen.rope' op the rotary width (6) must be at most the head dimension (4)}}
  %y = qwen.rope %x, %a : tensor<8x2x4xf32>, tensor<8x6xf32>
  return
}

// -----

func.func @rope_tokens(%x: tensor<8x2x4xf32>, %a: tensor<7x2xf32>) {
  // expected-error @+1 {{'qwen.rope' op angles must be 'tensor<8x2xf32>', but is 'tensor<7x2xf32>'}}
  %y = qwen.rope %x, %a : tensor<8x2x4xf32>, tensor<7x2xf32>
  return
}

// -----

func.func @angles(%p: tensor<8xi32>) {
  // expected-error @+1 {{'qwen.rope_angles' op theta must be a positive finite number, but is -1.0}}
  %a = qwen.rope_angles %p {theta = -1.0 : f64} : tensor<8xi32> -> tensor<8x2xf32>
  return
}

// -----

func.func @broadcast_dims(%x: tensor<4xf32>) {
  // expected-error @+1 {{'qwen.broadcast' op dims must ascend within [0, 2), but are [2]}}
  %y = qwen.broadcast %x dims = [2] : tensor<4xf32> -> tensor<8x4xf32>
  return
}

// -----

func.func @broadcast_size(%x: tensor<4xf32>) {
  // expected-error @+1 {{'qwen.broadcast' op dimension 0 of x ('tensor<4xf32>') must be as large as dimension 0 of y ('tensor<8x4xf32>')}}
  %y = qwen.broadcast %x dims = [0] : tensor<4xf32> -> tensor<8x4xf32>
  return
}

// -----

func.func @broadcast_count(%x: tensor<4xf32>) {
  // expected-error @+1 {{'qwen.broadcast' op dims must name one dimension of y for each of the 1 of x, but are []}}
  %y = qwen.broadcast %x dims = [] : tensor<4xf32> -> tensor<8x4xf32>
  return
}

// -----

func.func @reduce(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{'qwen.reduce_sum' op y must be 'tensor<8xf32>', but is 'tensor<4xf32>'}}
  %y = qwen.reduce_sum %x dims = [1] : tensor<8x4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @reduce_dims(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{'qwen.reduce_sum' op dims must ascend within [0, 2), but are [1, 0]}}
  %y = qwen.reduce_sum %x dims = [1, 0] : tensor<8x4xf32> -> tensor<f32>
  return
}

// -----

func.func @reshape(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{'qwen.reshape' op y must have x's element type and 32 elements, but x is 'tensor<8x4xf32>' and y is 'tensor<8x5xf32>'}}
  %y = qwen.reshape %x : tensor<8x4xf32> -> tensor<8x5xf32>
  return
}

// -----

func.func @split_width(%x: tensor<8x6xf32>) {
  // expected-error @+1 {{'qwen.split' op the last dimensions of the pieces must sum to that of x ('tensor<8x6xf32>'), but sum to 5}}
  %y:2 = qwen.split %x : tensor<8x6xf32> -> tensor<8x2xf32>, tensor<8x3xf32>
  return
}

// -----

func.func @split_rows(%x: tensor<8x6xf32>) {
  // expected-error @+1 {{'qwen.split' op piece #1 ('tensor<7x3xf32>') may differ from x ('tensor<8x6xf32>') in its last dimension only}}
  %y:2 = qwen.split %x : tensor<8x6xf32> -> tensor<8x3xf32>, tensor<7x3xf32>
  return
}

// -----

func.func @concat(%a: tensor<8x2xf32>, %b: tensor<8x2xbf16>) {
  // expected-error @+1 {{'qwen.concat' op piece #1 ('tensor<8x2xbf16>') may differ from y ('tensor<8x4xf32>') in its last dimension only}}
  %y = qwen.concat %a, %b : tensor<8x2xf32>, tensor<8x2xbf16> -> tensor<8x4xf32>
  return
}
