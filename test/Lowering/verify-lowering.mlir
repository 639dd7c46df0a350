// RUN: qwen-opt %s -verify-lowering | FileCheck %s

qwen.parameter @w : tensor<4xf32> {init = "one"}

kernel.group_function @double attributes {domain = array<i64: 8, 4>, rows_per_block = 8 : i64,
    input_types = [memref<8x4xf32>], output_types = [memref<8x4xf32>], column_sums = array<i64>} {
^bb0(%x: tensor<8x4xf32>):
  %y = arith.addf %x, %x : tensor<8x4xf32>
  qwen.yield %y : tensor<8x4xf32>
}

// CHECK-LABEL: func.func @f
func.func @f(%x: memref<8x4xf32>, %y: memref<8x4xf32>) {
  %t = memref.alloc() : memref<8x4xf32>
  kernel.group @double ins(%x : memref<8x4xf32>) outs(%t : memref<8x4xf32>) {flops_per_row = 4 : i64, rows = 8 : i64, rows_per_block = 8 : i64}
  kernel.copy ins(%t : memref<8x4xf32>) outs(%y : memref<8x4xf32>)
  return
}
