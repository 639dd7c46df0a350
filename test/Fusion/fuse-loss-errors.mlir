// RUN: qwen-opt %s -split-input-file -verify-diagnostics -qwen-fuse-loss

// The pass runs on what the verifier has accepted.
func.func @label_type(%x: tensor<8x4xf32>, %w: tensor<16x4xf32>, %labels: tensor<7xi32>) -> tensor<8xf32> {
  // expected-error @+1 {{'qwen.linear_cross_entropy' op labels must be 'tensor<8xi32>', but is 'tensor<7xi32>'}}
  %nll = qwen.linear_cross_entropy %x, %w, %labels : tensor<8x4xf32>, tensor<16x4xf32>, tensor<7xi32> -> tensor<8xf32>
  return %nll : tensor<8xf32>
}
