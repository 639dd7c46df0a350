// RUN: qwen-opt %s -split-input-file -verify-diagnostics -verify-fusion

func.func @elementwise(%a: tensor<8x64xf32>, %b: tensor<8x64xf32>) -> tensor<8x64xf32> {
  // expected-error @+1 {{'arith.addf' op in @elementwise is outside every group after fusion}}
  %y = arith.addf %a, %b : tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}

// -----

func.func @norm(%x: tensor<8x64xf32>, %w: tensor<64xf32>) -> tensor<8x64xf32> {
  // expected-error @+1 {{'qwen.rms_norm' op in @norm is outside every group after fusion}}
  %y = qwen.rms_norm %x, %w {eps = 1.0e-6 : f64, offset = 1.0 : f64} : tensor<8x64xf32>, tensor<64xf32> -> tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}

// -----

func.func @constant() -> tensor<2xf32> {
  // expected-error @+1 {{'arith.constant' op in @constant is outside every group after fusion}}
  %y = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

module {
  // expected-error @+1 {{'builtin.module' op is not expected in a module after fusion}}
  module @inner {
  }
}
