// RUN: qwen-opt %s -qwen-lower-to-kernels -verify-lowering | FileCheck %s

// About 64k elements, at most 128 rows; whole tokens where a token has several
// rows.
// CHECK-DAG: kernel.group_function @wide {{.*}}rows_per_block = 4 : i64
// CHECK-DAG: kernel.group_function @narrow {{.*}}rows_per_block = 128 : i64
// CHECK-DAG: kernel.group_function @heads {{.*}}rows_per_block = 120 : i64
// A block with column sums is at least 32 rows.
// CHECK-DAG: kernel.group_function @sums {{.*}}rows_per_block = 32 : i64

func.func @f(%w: tensor<512x16384xf32>, %n: tensor<512x64xf32>, %h: tensor<64x24x64xf32>)
    -> (tensor<512x16384xf32>, tensor<512x64xf32>, tensor<64x24x64xf32>, tensor<16384xf32>) {
  %0 = qwen.group(%a = %w : tensor<512x16384xf32>) domain = [512, 16384] attributes {label = "wide"} -> tensor<512x16384xf32> {
    %s = qwen.sigmoid %a : tensor<512x16384xf32>
    qwen.yield %s : tensor<512x16384xf32>
  }
  %1 = qwen.group(%a = %n : tensor<512x64xf32>) domain = [512, 64] attributes {label = "narrow"} -> tensor<512x64xf32> {
    %s = qwen.sigmoid %a : tensor<512x64xf32>
    qwen.yield %s : tensor<512x64xf32>
  }
  %2 = qwen.group(%a = %h : tensor<64x24x64xf32>) domain = [64, 24, 64] attributes {label = "heads"} -> tensor<64x24x64xf32> {
    %s = qwen.sigmoid %a : tensor<64x24x64xf32>
    qwen.yield %s : tensor<64x24x64xf32>
  }
  %3 = qwen.group(%a = %w : tensor<512x16384xf32>) domain = [512, 16384] attributes {label = "sums"} -> tensor<16384xf32> {
    %s = qwen.reduce_sum %a dims = [0] : tensor<512x16384xf32> -> tensor<16384xf32>
    qwen.yield %s : tensor<16384xf32>
  }
  return %0, %1, %2, %3 : tensor<512x16384xf32>, tensor<512x64xf32>, tensor<64x24x64xf32>, tensor<16384xf32>
}
