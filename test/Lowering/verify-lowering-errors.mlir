// RUN: qwen-opt %s -split-input-file -verify-diagnostics -verify-lowering

// expected-error @+1 {{'func.func' op must take contiguous buffers and return nothing after lowering}}
func.func @tensors(%x: tensor<8x4xf32>) {
  return
}

// -----

func.func @left_over(%x: memref<8x4xf32>) {
  // expected-error @+1 {{'arith.constant' op in @left_over is no kernel call: only kernel ops may remain after lowering}}
  %c = arith.constant dense<0.0> : tensor<8x4xf32>
  return
}

// -----

func.func @no_function(%x: memref<8x4xf32>, %y: memref<8x4xf32>) {
  // expected-error @+1 {{'kernel.group' op names the group function @missing, which does not exist}}
  kernel.group @missing ins(%x : memref<8x4xf32>) outs(%y : memref<8x4xf32>) {flops_per_row = 4 : i64, rows = 8 : i64, rows_per_block = 8 : i64}
  return
}

// -----

kernel.group_function @double attributes {domain = array<i64: 8, 4>, rows_per_block = 8 : i64,
    input_types = [memref<8x4xf32>], output_types = [memref<8x4xf32>], column_sums = array<i64>} {
^bb0(%x: tensor<8x4xf32>):
  %y = arith.addf %x, %x : tensor<8x4xf32>
  qwen.yield %y : tensor<8x4xf32>
}

func.func @other_layout(%x: memref<8x8xf32>, %y: memref<8x4xf32>) {
  %v = kernel.view %x[0] : memref<8x8xf32> to memref<8x4xf32, strided<[8, 1]>>
  // expected-error @+1 {{'kernel.group' op input #0 is 'memref<8x4xf32, strided<[8, 1]>>', but @double takes 'memref<8x4xf32>'}}
  kernel.group @double ins(%v : memref<8x4xf32, strided<[8, 1]>>) outs(%y : memref<8x4xf32>) {flops_per_row = 4 : i64, rows = 8 : i64, rows_per_block = 8 : i64}
  return
}

// -----

kernel.group_function @double attributes {domain = array<i64: 8, 4>, rows_per_block = 8 : i64,
    input_types = [memref<8x4xf32>], output_types = [memref<8x4xf32>], column_sums = array<i64>} {
^bb0(%x: tensor<8x4xf32>):
  %y = arith.addf %x, %x : tensor<8x4xf32>
  qwen.yield %y : tensor<8x4xf32>
}

func.func @other_blocks(%x: memref<8x4xf32>, %y: memref<8x4xf32>) {
  // expected-error @+1 {{'kernel.group' op must have the rows, rows_per_block and column_sums of @double}}
  kernel.group @double ins(%x : memref<8x4xf32>) outs(%y : memref<8x4xf32>) {flops_per_row = 4 : i64, rows = 8 : i64, rows_per_block = 4 : i64}
  return
}
