// REQUIRES: nvjitlink
// RUN: qwen-opt %s -qwen-lower-groups-gpu -qwen-compile-groups-gpu | FileCheck %s

// A 64-bit ELF object of machine 190 (CUDA).
// CHECK: kernel.binary @code {object = "\7FELF\02\01{{.*}}", symbols = [#kernel.code_symbol<name = "f", {{.*}}>], target = "sm_90a"}
kernel.group_function @f attributes {domain = array<i64: 2, 4>, rows_per_block = 2 : i64,
    input_types = [memref<2x4xf32>], output_types = [memref<2x4xf32>], column_sums = array<i64>} {
^bb0(%x: tensor<2x4xf32>):
  %y = arith.negf %x : tensor<2x4xf32>
  qwen.yield %y : tensor<2x4xf32>
}
