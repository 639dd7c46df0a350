// RUN: qwen-opt %s -split-input-file -verify-diagnostics -qwen-normalize-shapes

// A reshape that would lose elements never reaches the patterns.
func.func @lossy(%x: tensor<8x8xf32>) -> tensor<8x2x3xf32> {
  // expected-error @+1 {{'qwen.reshape' op y must have x's element type and 64 elements}}
  %y = qwen.reshape %x : tensor<8x8xf32> -> tensor<8x2x3xf32>
  return %y : tensor<8x2x3xf32>
}
