// Shapes that no op takes: dynamic, empty, huge, rank 0.
// RUN: qwen-opt %s -split-input-file -verify-diagnostics

func.func @dynamic(%x: tensor<?x4xf32>, %w: tensor<6x4xf32>) {
  // expected-error @+1 {{'qwen.linear' op operand #0 must have a static shape, but is 'tensor<?x4xf32>'}}
  %y = qwen.linear %x, %w : tensor<?x4xf32>, tensor<6x4xf32> -> tensor<?x6xf32>
  return
}

// -----

func.func @dynamic_result(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{'qwen.reshape' op result #0 must have a static shape, but is 'tensor<?xf32>'}}
  %y = qwen.reshape %x : tensor<8x4xf32> -> tensor<?xf32>
  return
}

// -----

func.func @unranked(%x: tensor<*xf32>) {
  // expected-error @+1 {{'qwen.sigmoid' op operand #0 must be ranked tensor of 32-bit float or bfloat16 type or 64-bit float values, but got 'tensor<*xf32>'}}
  %y = "qwen.sigmoid"(%x) : (tensor<*xf32>) -> tensor<*xf32>
  return
}

// -----

func.func @rank_zero(%x: tensor<f32>) {
  // expected-error @+1 {{'qwen.sigmoid' op operand #0 must have at least one dimension, but is 'tensor<f32>'}}
  %y = qwen.sigmoid %x : tensor<f32>
  return
}

// -----

func.func @empty(%x: tensor<0x4xf32>) {
  // expected-error @+1 {{'qwen.softplus' op operand #0 must have dimensions between 1 and 2147483647, but is 'tensor<0x4xf32>'}}
  %y = qwen.softplus %x : tensor<0x4xf32>
  return
}

// -----

func.func @huge(%x: tensor<2147483648xf32>) {
  // expected-error @+1 {{'qwen.sigmoid' op operand #0 must have dimensions between 1 and 2147483647, but is 'tensor<2147483648xf32>'}}
  %y = qwen.sigmoid %x : tensor<2147483648xf32>
  return
}

// -----

func.func @too_many_elements(%x: tensor<2147483647x2147483647xbf16>) {
  // expected-error @+1 {{'qwen.sigmoid' op operand #0 must have at most 281474976710656 elements, but is 'tensor<2147483647x2147483647xbf16>'}}
  %y = qwen.sigmoid %x : tensor<2147483647x2147483647xbf16>
  return
}

// -----

// expected-error @+1 {{'qwen.parameter' op type must have a static shape, but is 'tensor<?xf32>'}}
qwen.parameter @w : tensor<?xf32> {init = "zero"}

// -----

func.func @group(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{'qwen.group' op operand #0 must have a static shape, but is 'tensor<?x4xf32>'}}
  %y = qwen.group(%a = %x : tensor<?x4xf32>) domain = [8, 4] -> tensor<?x4xf32> {
    qwen.yield %a : tensor<?x4xf32>
  }
  return
}

// -----

func.func @encoding(%x: tensor<8x4xf32, "sparse">) {
  // expected-error @+1 {{'qwen.sigmoid' op operand #0 must have no encoding, but is 'tensor<8x4xf32, "sparse">'}}
  %y = qwen.sigmoid %x : tensor<8x4xf32, "sparse">
  return
}
