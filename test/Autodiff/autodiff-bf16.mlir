// RUN: qwen-opt %s --qwen-autodiff | FileCheck %s

qwen.parameter @w : tensor<4x4xbf16> {init = "normal"}
qwen.parameter @scale : tensor<4xbf16> {init = "one"}
qwen.parameter @head : tensor<16x4xbf16> {init = "normal"}

// CHECK-LABEL: func.func private @layer(
func.func private @layer(%x: tensor<8x4xbf16>, %scale: tensor<4xbf16>, %w: tensor<8x4xbf16>) -> tensor<8x8xbf16> {
  %xf = arith.extf %x : tensor<8x4xbf16> to tensor<8x4xf32>
  %sf = arith.extf %scale : tensor<4xbf16> to tensor<4xf32>
  %sb = qwen.broadcast %sf dims = [1] : tensor<4xf32> -> tensor<8x4xf32>
  %m = arith.mulf %xf, %sb : tensor<8x4xf32>
  %a = arith.addf %m, %xf : tensor<8x4xf32>
  %at = arith.truncf %a : tensor<8x4xf32> to tensor<8x4xbf16>
  %y = qwen.linear %at, %w : tensor<8x4xbf16>, tensor<8x4xbf16> -> tensor<8x8xbf16>
  return %y : tensor<8x8xbf16>
}

// The rounded GEMM operand is the one residual: the f32 chain is not saved.
// CHECK-LABEL: func.func private @layer_forward(
// CHECK-SAME: -> (tensor<8x8xbf16>, tensor<8x4xbf16>)

// Cotangents of x are added in f32 and rounded once; that of the bf16 weight
// behind arith.extf stays f32, and so does the GEMM's.
// CHECK-LABEL: func.func private @layer_backward(
// CHECK-SAME: %[[DY:[a-z0-9]+]]: tensor<8x8xbf16>) -> (tensor<8x4xbf16>, tensor<4xf32>, tensor<8x4xf32>)
// CHECK: %[[DAT:.*]] = qwen.matmul %[[DY]], %{{.*}} -> tensor<8x4xbf16>
// CHECK: %[[DW:.*]] = qwen.matmul %[[DY]], %{{.*}} {transpose_a} : tensor<8x8xbf16>, tensor<8x4xbf16> -> tensor<8x4xf32>
// CHECK: %[[DA:.*]] = arith.extf %[[DAT]]
// CHECK: %[[DXM:.*]] = arith.mulf %[[DA]]
// CHECK: %[[DSB:.*]] = arith.mulf %[[DA]]
// CHECK: %[[DS:.*]] = qwen.reduce_sum %[[DSB]] dims = [0] : tensor<8x4xf32> -> tensor<4xf32>
// CHECK: %[[DXF:.*]] = arith.addf %[[DA]], %[[DXM]] : tensor<8x4xf32>
// CHECK: %[[DX:.*]] = arith.truncf %[[DXF]]
// CHECK: return %[[DX]], %[[DS]], %[[DW]]

// An embedding's values are data for the layer, but %w of the second call is
// read from a parameter through a reshape: its cotangent is f32 up to there.
// CHECK-LABEL: func.func @micro_step(
// CHECK: qwen.accumulate_grad [@head], %{{.*}} : tensor<16x4xf32>
// CHECK: qwen.accumulate_grad [@scale], %{{.*}} : tensor<4xf32>
func.func @forward(%tokens: tensor<8xi32> {qwen.input = "tokens"}, %labels: tensor<8xi32> {qwen.input = "labels"}) -> (tensor<8xf32> {qwen.output = "nll"}) {
  %head = qwen.get_parameter [@head] : tensor<16x4xbf16>
  %x = qwen.embedding %head, %tokens : tensor<16x4xbf16>, tensor<8xi32> -> tensor<8x4xbf16>
  %scale = qwen.get_parameter [@scale] : tensor<4xbf16>
  %w = qwen.get_parameter [@w] : tensor<4x4xbf16>
  %ww = qwen.concat %w, %w : tensor<4x4xbf16>, tensor<4x4xbf16> -> tensor<4x8xbf16>
  // CHECK: %[[DW:.*]] = qwen.reshape %{{.*}} : tensor<8x4xf32> -> tensor<4x8xf32>
  // CHECK: %[[P:.*]]:2 = qwen.split %[[DW]] : tensor<4x8xf32> -> tensor<4x4xf32>, tensor<4x4xf32>
  // CHECK-NEXT: qwen.accumulate_grad [@w], %[[P]]#0 : tensor<4x4xf32>
  // CHECK-NEXT: qwen.accumulate_grad [@w], %[[P]]#1 : tensor<4x4xf32>
  %w8 = qwen.reshape %ww : tensor<4x8xbf16> -> tensor<8x4xbf16>
  %y = call @layer(%x, %scale, %w8) : (tensor<8x4xbf16>, tensor<4xbf16>, tensor<8x4xbf16>) -> tensor<8x8xbf16>
  %p:2 = qwen.split %y : tensor<8x8xbf16> -> tensor<8x4xbf16>, tensor<8x4xbf16>
  %nll = qwen.linear_cross_entropy %p#0, %head, %labels : tensor<8x4xbf16>, tensor<16x4xbf16>, tensor<8xi32> -> tensor<8xf32>
  return %nll : tensor<8xf32>
}
