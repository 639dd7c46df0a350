// RUN: qwen-opt %s -split-input-file -verify-diagnostics -qwen-decompose

// A weight of another length is refused before there are parts to disagree.
func.func @weight(%x: tensor<8x64xf32>, %w: tensor<32xf32>) -> tensor<8x64xf32> {
  // expected-error @+1 {{'qwen.rms_norm' op w must have shape [64]}}
  %y = qwen.rms_norm %x, %w {eps = 1.0e-6 : f64, offset = 1.0 : f64} : tensor<8x64xf32>, tensor<32xf32> -> tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}
