// RUN: qwen-opt --pass-pipeline='builtin.module(func.func(qwen-fuse-residuals))' --split-input-file %s | FileCheck %s

// Where the product or the unrounded sum has another reader, or the residual
// comes after the product, nothing changes.
// CHECK-NOT: qwen.linear_add

func.func @product_read_twice(%x: tensor<8x4xbf16>, %w: tensor<6x4xbf16>, %r: tensor<8x6xbf16>) -> (tensor<8x6xbf16>, tensor<8x6xbf16>) {
  %y = qwen.linear %x, %w : tensor<8x4xbf16>, tensor<6x4xbf16> -> tensor<8x6xbf16>
  %a = arith.extf %y : tensor<8x6xbf16> to tensor<8x6xf32>
  %b = arith.extf %r : tensor<8x6xbf16> to tensor<8x6xf32>
  %c = arith.addf %a, %b : tensor<8x6xf32>
  %s = arith.truncf %c : tensor<8x6xf32> to tensor<8x6xbf16>
  return %s, %y : tensor<8x6xbf16>, tensor<8x6xbf16>
}

// -----

func.func @wide_sum_read(%x: tensor<8x4xbf16>, %w: tensor<6x4xbf16>, %r: tensor<8x6xbf16>) -> (tensor<8x6xbf16>, tensor<8x6xf32>) {
  %y = qwen.linear %x, %w : tensor<8x4xbf16>, tensor<6x4xbf16> -> tensor<8x6xbf16>
  %a = arith.extf %y : tensor<8x6xbf16> to tensor<8x6xf32>
  %b = arith.extf %r : tensor<8x6xbf16> to tensor<8x6xf32>
  %c = arith.addf %a, %b : tensor<8x6xf32>
  %s = arith.truncf %c : tensor<8x6xf32> to tensor<8x6xbf16>
  return %s, %c : tensor<8x6xbf16>, tensor<8x6xf32>
}

// -----

func.func @residual_after_product(%x: tensor<8x4xbf16>, %w: tensor<6x4xbf16>, %t: tensor<6x4xbf16>) -> tensor<8x6xbf16> {
  %y = qwen.linear %x, %w : tensor<8x4xbf16>, tensor<6x4xbf16> -> tensor<8x6xbf16>
  %r = qwen.linear %x, %t : tensor<8x4xbf16>, tensor<6x4xbf16> -> tensor<8x6xbf16>
  %r2 = arith.extf %r : tensor<8x6xbf16> to tensor<8x6xf32>
  %n = arith.negf %r2 : tensor<8x6xf32>
  %q = arith.truncf %n : tensor<8x6xf32> to tensor<8x6xbf16>
  %a = arith.extf %y : tensor<8x6xbf16> to tensor<8x6xf32>
  %b = arith.extf %q : tensor<8x6xbf16> to tensor<8x6xf32>
  %c = arith.addf %a, %b : tensor<8x6xf32>
  %s = arith.truncf %c : tensor<8x6xf32> to tensor<8x6xbf16>
  return %s : tensor<8x6xbf16>
}
