// RUN: qwen-opt --pass-pipeline='builtin.module(func.func(qwen-fuse-residuals))' --split-input-file %s | FileCheck %s

// CHECK-LABEL: @residual_first
// CHECK-SAME: %[[X:.*]]: tensor<8x4xbf16>, %[[W:.*]]: tensor<6x4xbf16>, %[[R:.*]]: tensor<8x6xbf16>
// CHECK-NEXT: %[[S:.*]] = qwen.linear_add %[[X]], %[[W]], %[[R]] : tensor<8x4xbf16>, tensor<6x4xbf16>, tensor<8x6xbf16> -> tensor<8x6xbf16>
// CHECK-NEXT: return %[[S]]
func.func @residual_first(%x: tensor<8x4xbf16>, %w: tensor<6x4xbf16>, %r: tensor<8x6xbf16>) -> tensor<8x6xbf16> {
  %y = qwen.linear %x, %w : tensor<8x4xbf16>, tensor<6x4xbf16> -> tensor<8x6xbf16>
  %b = arith.extf %r : tensor<8x6xbf16> to tensor<8x6xf32>
  %a = arith.extf %y : tensor<8x6xbf16> to tensor<8x6xf32>
  %c = arith.addf %b, %a : tensor<8x6xf32>
  %s = arith.truncf %c : tensor<8x6xf32> to tensor<8x6xbf16>
  return %s : tensor<8x6xbf16>
}

// -----

// The residual is the sum of the layer's first half and read again.
// CHECK-LABEL: @two_in_a_row
// CHECK: %[[S:.*]] = qwen.linear_add
// CHECK: %[[T:.*]] = qwen.linear_add %[[S]], %{{.*}}, %[[S]]
// CHECK-NEXT: return %[[T]], %[[S]]
func.func @two_in_a_row(%x: tensor<8x4xbf16>, %w: tensor<4x4xbf16>) -> (tensor<8x4xbf16>, tensor<8x4xbf16>) {
  %y = qwen.linear %x, %w : tensor<8x4xbf16>, tensor<4x4xbf16> -> tensor<8x4xbf16>
  %a = arith.extf %y : tensor<8x4xbf16> to tensor<8x4xf32>
  %b = arith.extf %x : tensor<8x4xbf16> to tensor<8x4xf32>
  %c = arith.addf %a, %b : tensor<8x4xf32>
  %s = arith.truncf %c : tensor<8x4xf32> to tensor<8x4xbf16>
  %y2 = qwen.linear %s, %w : tensor<8x4xbf16>, tensor<4x4xbf16> -> tensor<8x4xbf16>
  %a2 = arith.extf %y2 : tensor<8x4xbf16> to tensor<8x4xf32>
  %b2 = arith.extf %s : tensor<8x4xbf16> to tensor<8x4xf32>
  %c2 = arith.addf %a2, %b2 : tensor<8x4xf32>
  %t = arith.truncf %c2 : tensor<8x4xf32> to tensor<8x4xbf16>
  return %t, %s : tensor<8x4xbf16>, tensor<8x4xbf16>
}
