// Ops without effects may be merged and removed; those that change optimizer
// state or gradients may not.
// RUN: qwen-opt %s -cse -canonicalize | FileCheck %s

qwen.parameter @w : tensor<6x4xf32> {init = "zero"}

// CHECK-LABEL: func.func @merge
func.func @merge(%x: tensor<8x4xf32>) -> tensor<8x6xf32> {
  // CHECK-COUNT-1: qwen.get_parameter
  // CHECK-COUNT-1: qwen.linear
  // CHECK-NOT: qwen
  // CHECK: arith.addf
  %w0 = qwen.get_parameter [@w] : tensor<6x4xf32>
  %w1 = qwen.get_parameter [@w] : tensor<6x4xf32>
  %a = qwen.linear %x, %w0 : tensor<8x4xf32>, tensor<6x4xf32> -> tensor<8x6xf32>
  %b = qwen.linear %x, %w1 : tensor<8x4xf32>, tensor<6x4xf32> -> tensor<8x6xf32>
  %unused = qwen.sigmoid %a : tensor<8x6xf32>
  %sum = arith.addf %a, %b : tensor<8x6xf32>
  return %sum : tensor<8x6xf32>
}

// CHECK-LABEL: func.func @effects
func.func @effects(%g: tensor<6x4xf32>, %hyper: tensor<8xf32>) {
  // CHECK-COUNT-2: qwen.accumulate_grad
  qwen.accumulate_grad [@w], %g : tensor<6x4xf32>
  qwen.accumulate_grad [@w], %g : tensor<6x4xf32>
  // CHECK-COUNT-2: qwen.grad_norm
  %a = qwen.grad_norm %hyper of [@w] : tensor<8xf32> -> tensor<4xf32>
  %b = qwen.grad_norm %hyper of [@w] : tensor<8xf32> -> tensor<4xf32>
  return
}
