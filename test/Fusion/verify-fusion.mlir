// RUN: qwen-opt %s -verify-fusion | FileCheck %s

// CHECK-LABEL: func.func @f
// CHECK: qwen.group
func.func @f(%x: tensor<8x4xf32>, %w: tensor<6x4xf32>) -> tensor<8x12xf32> {
  %zero = arith.constant dense<0.0> : tensor<8x6xf32>
  %y = qwen.group(%a = %x : tensor<8x4xf32>) domain = [8, 4] -> tensor<8x4xf32> {
    %0 = qwen.sigmoid %a : tensor<8x4xf32>
    qwen.yield %0 : tensor<8x4xf32>
  }
  %z = qwen.linear %y, %w : tensor<8x4xf32>, tensor<6x4xf32> -> tensor<8x6xf32>
  %c = qwen.concat %z, %zero : tensor<8x6xf32>, tensor<8x6xf32> -> tensor<8x12xf32>
  return %c : tensor<8x12xf32>
}
