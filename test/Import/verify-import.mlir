// RUN: qwen-opt %s -verify-import | FileCheck %s

// The smallest model: one parameter, tied embedding and head.
// CHECK: qwen.parameter @w
// CHECK-LABEL: func.func @forward
module attributes {qwen.tokens = 8 : i64, qwen.max_documents = 2 : i64} {
  qwen.parameter @w : tensor<16x4xf32> {init = "normal", std = 2.0e-2 : f64}
  func.func @forward(%t: tensor<8xi32> {qwen.input = "tokens"}, %l: tensor<8xi32> {qwen.input = "labels"},
      %p: tensor<8xi32> {qwen.input = "positions"}, %c: tensor<3xi32> {qwen.input = "cu_seqlens"})
      -> (tensor<8xf32> {qwen.output = "nll"}) {
    %w = qwen.get_parameter [@w] : tensor<16x4xf32>
    %x = qwen.embedding %w, %t : tensor<16x4xf32>, tensor<8xi32> -> tensor<8x4xf32>
    %n = qwen.linear_cross_entropy %x, %w, %l : tensor<8x4xf32>, tensor<16x4xf32>, tensor<8xi32> -> tensor<8xf32>
    return %n : tensor<8xf32>
  }
}
