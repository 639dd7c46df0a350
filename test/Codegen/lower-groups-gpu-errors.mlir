// RUN: qwen-opt %s -split-input-file -verify-diagnostics -qwen-lower-groups-gpu

// expected-error @+1 {{has an operand of type 'memref<2x4xf64>'; generated GPU kernels take f32 and bf16}}
kernel.group_function @f attributes {domain = array<i64: 2, 4>, rows_per_block = 2 : i64,
    input_types = [memref<2x4xf64>], output_types = [memref<2x4xf64>], column_sums = array<i64>} {
^bb0(%x: tensor<2x4xf64>):
  %y = arith.negf %x : tensor<2x4xf64>
  qwen.yield %y : tensor<2x4xf64>
}

// -----

// A row that the registers of a block cannot hold.
// expected-error @+1 {{has rows of 131072 columns, more than the 65536 that a GPU block can hold}}
kernel.group_function @f attributes {domain = array<i64: 2, 131072>, rows_per_block = 2 : i64,
    input_types = [memref<2x131072xf32>], output_types = [memref<2xf32>], column_sums = array<i64>} {
^bb0(%x: tensor<2x131072xf32>):
  %y = qwen.reduce_sum %x dims = [1] : tensor<2x131072xf32> -> tensor<2xf32>
  qwen.yield %y : tensor<2xf32>
}

// -----

// What no emitter takes.
kernel.group_function @f attributes {domain = array<i64: 2, 3, 4>, rows_per_block = 2 : i64,
    input_types = [memref<2x3x4xf32>], output_types = [memref<2xf32>], column_sums = array<i64>} {
^bb0(%x: tensor<2x3x4xf32>):
  // expected-error @+1 {{sums over the last dimension alone or over all others}}
  %y = qwen.reduce_sum %x dims = [1, 2] : tensor<2x3x4xf32> -> tensor<2xf32>
  qwen.yield %y : tensor<2xf32>
}
