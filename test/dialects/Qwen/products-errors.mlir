// Matrix products, embedding and loss with shapes that do not fit.
// RUN: qwen-opt %s -split-input-file -verify-diagnostics

func.func @linear(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>) {
  // expected-error @+1 {{'qwen.linear' op w must be 'tensor<4x4xf32>', but is 'tensor<4x6xf32>'}}
  %y = qwen.linear %x, %w : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  return
}

// -----

func.func @linear_rank(%x: tensor<8x2x4xf32>, %w: tensor<6x4xf32>) {
  // expected-error @+1 {{'qwen.linear' op x must have shape [tokens, in], but is 'tensor<8x2x4xf32>'}}
  %y = qwen.linear %x, %w : tensor<8x2x4xf32>, tensor<6x4xf32> -> tensor<8x6xf32>
  return
}

// -----

func.func @linear_result(%x: tensor<8x4xf32>, %w: tensor<6x4xf32>) {
  // expected-error @+1 {{'qwen.linear' op the result must be 'tensor<8x6xf32>', but is 'tensor<8x5xf32>'}}
  %y = qwen.linear %x, %w : tensor<8x4xf32>, tensor<6x4xf32> -> tensor<8x5xf32>
  return
}

// -----

func.func @matmul(%a: tensor<8x4xf32>, %b: tensor<4x2xf32>) {
  // expected-error @+1 {{'qwen.matmul' op b must be 'tensor<4x4xf32>', but is 'tensor<4x2xf32>'}}
  %c = qwen.matmul %a, %b {transpose_b} : tensor<8x4xf32>, tensor<4x2xf32> -> tensor<8x4xf32>
  return
}

// -----

func.func @embedding(%table: tensor<16x4xf32>, %ids: tensor<2x4xi32>) {
  // expected-error @+1 {{'qwen.embedding' op ids must have shape [tokens], but is 'tensor<2x4xi32>'}}
  %y = qwen.embedding %table, %ids : tensor<16x4xf32>, tensor<2x4xi32> -> tensor<8x4xf32>
  return
}

// -----

func.func @embedding_grad(%dy: tensor<8x4xbf16>, %ids: tensor<8xi32>) {
  // expected-error @+1 {{'qwen.embedding_grad' op dtable must be 'tensor<16x4xf32>', but is 'tensor<16x5xf32>'}}
  %d = qwen.embedding_grad %dy, %ids : tensor<8x4xbf16>, tensor<8xi32> -> tensor<16x5xf32>
  return
}

// -----

func.func @loss(%x: tensor<8x4xf32>, %w: tensor<16x5xf32>, %labels: tensor<8xi32>) {
  // expected-error @+1 {{'qwen.linear_cross_entropy' op w must be 'tensor<16x4xf32>', but is 'tensor<16x5xf32>'}}
  %nll = qwen.linear_cross_entropy %x, %w, %labels : tensor<8x4xf32>, tensor<16x5xf32>, tensor<8xi32> -> tensor<8xf32>
  return
}

// -----

func.func @labels(%x: tensor<8x4xf32>, %w: tensor<16x4xf32>, %labels: tensor<7xi32>) {
  // expected-error @+1 {{'qwen.linear_cross_entropy' op labels must be 'tensor<8xi32>', but is 'tensor<7xi32>'}}
  %nll = qwen.linear_cross_entropy %x, %w, %labels : tensor<8x4xf32>, tensor<16x4xf32>, tensor<7xi32> -> tensor<8xf32>
  return
}

// -----

func.func @ignore_index(%x: tensor<8x4xf32>, %w: tensor<16x4xf32>, %labels: tensor<8xi32>) {
  // expected-error @+1 {{'qwen.linear_cross_entropy' op ignore_index must be a negative 32-bit number, but is 5}}
  %nll = qwen.linear_cross_entropy %x, %w, %labels {ignore_index = 5 : i64} : tensor<8x4xf32>, tensor<16x4xf32>, tensor<8xi32> -> tensor<8xf32>
  return
}

// -----

func.func @loss_grad(%x: tensor<8x4xf32>, %w: tensor<16x4xf32>, %labels: tensor<8xi32>, %dnll: tensor<f32>) {
  // expected-error @+1 {{'qwen.linear_cross_entropy_grad' op operand #3 must have at least one dimension, but is 'tensor<f32>'}}
  %d:3 = qwen.linear_cross_entropy_grad %x, %w, %labels, %dnll : tensor<8x4xf32>, tensor<16x4xf32>, tensor<8xi32>, tensor<f32> -> tensor<8xf32>, tensor<8x4xf32>, tensor<16x4xf32>
  return
}
