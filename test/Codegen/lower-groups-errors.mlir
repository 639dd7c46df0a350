// RUN: qwen-opt %s -split-input-file -verify-diagnostics -qwen-lower-groups

// A sum over heads and columns is neither a row sum nor a column sum.
kernel.group_function @f attributes {domain = array<i64: 2, 3, 4>, rows_per_block = 2 : i64,
    input_types = [memref<2x3x4xf32>], output_types = [memref<2xf32>], column_sums = array<i64>} {
^bb0(%x: tensor<2x3x4xf32>):
  // expected-error @+1 {{sums over the last dimension alone or over all others}}
  %y = qwen.reduce_sum %x dims = [1, 2] : tensor<2x3x4xf32> -> tensor<2xf32>
  qwen.yield %y : tensor<2xf32>
}

// -----

// Only splat constants.
kernel.group_function @f attributes {domain = array<i64: 1, 2>, rows_per_block = 2 : i64,
    input_types = [memref<1x2xf32>], output_types = [memref<1x2xf32>], column_sums = array<i64>} {
^bb0(%x: tensor<1x2xf32>):
  // expected-error @+1 {{in a group must be a floating-point splat}}
  %c = arith.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>
  %y = arith.addf %x, %c : tensor<1x2xf32>
  qwen.yield %y : tensor<1x2xf32>
}

// -----

// A value whose dimensions nothing tells.
kernel.group_function @f attributes {domain = array<i64: 4, 4>, rows_per_block = 2 : i64,
    input_types = [memref<4xf32>], output_types = [memref<4xf32>], column_sums = array<i64>} {
// expected-error @+1 {{cannot tell over which dimensions of the iteration space this group value runs}}
^bb0(%x: tensor<4xf32>):
  %y = arith.addf %x, %x : tensor<4xf32>
  qwen.yield %y : tensor<4xf32>
}
