// RUN: qwen-opt %s --qwen-merge-projections --qwen-autodiff --qwen-first-micro-step --qwen-optimizer --verify-autodiff | FileCheck %s

// The whole stage, and its promise.
// CHECK-DAG: func.func @micro_step(
// CHECK-DAG: func.func @first_micro_step(
// CHECK-DAG: func.func @eval(
// CHECK-DAG: func.func @update(
// CHECK-NOT: func.func @forward(
qwen.parameter @embed : tensor<16x4xbf16> {init = "normal"}
qwen.parameter @a : tensor<4x4xbf16> {init = "normal"}
qwen.parameter @b : tensor<4x4xbf16> {init = "normal"}
func.func @forward(%tokens: tensor<8xi32> {qwen.input = "tokens"}, %labels: tensor<8xi32> {qwen.input = "labels"}, %positions: tensor<8xi32> {qwen.input = "positions"}, %cu: tensor<3xi32> {qwen.input = "cu_seqlens"}) -> (tensor<8xf32> {qwen.output = "nll"}) {
  %e = qwen.get_parameter [@embed] : tensor<16x4xbf16>
  %a = qwen.get_parameter [@a] : tensor<4x4xbf16>
  %b = qwen.get_parameter [@b] : tensor<4x4xbf16>
  %x = qwen.embedding %e, %tokens : tensor<16x4xbf16>, tensor<8xi32> -> tensor<8x4xbf16>
  %0 = qwen.linear %x, %a : tensor<8x4xbf16>, tensor<4x4xbf16> -> tensor<8x4xbf16>
  %1 = qwen.linear %x, %b : tensor<8x4xbf16>, tensor<4x4xbf16> -> tensor<8x4xbf16>
  %2 = arith.extf %0 : tensor<8x4xbf16> to tensor<8x4xf32>
  %3 = arith.extf %1 : tensor<8x4xbf16> to tensor<8x4xf32>
  %4 = arith.mulf %2, %3 : tensor<8x4xf32>
  %5 = arith.truncf %4 : tensor<8x4xf32> to tensor<8x4xbf16>
  %nll = qwen.linear_cross_entropy %5, %e, %labels : tensor<8x4xbf16>, tensor<16x4xbf16>, tensor<8xi32> -> tensor<8xf32>
  return %nll : tensor<8xf32>
}
