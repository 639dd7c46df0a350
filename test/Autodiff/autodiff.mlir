// RUN: qwen-opt %s --qwen-autodiff | FileCheck %s

qwen.parameter @embed : tensor<16x4xf32> {init = "normal"}
qwen.parameter @w0 : tensor<4x4xf32> {init = "normal"}
qwen.parameter @w1 : tensor<4x4xf32> {init = "normal"}

// The function of the model stays for @eval.
// CHECK-LABEL: func.func private @layer(
func.func private @layer(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> tensor<8x4xf32> {
  %y = qwen.linear %x, %w : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  %s = qwen.sigmoid %y : tensor<8x4xf32>
  %z = arith.mulf %y, %s : tensor<8x4xf32>
  %o = arith.addf %x, %z : tensor<8x4xf32>
  return %o : tensor<8x4xf32>
}

// Of y, s and z only y is saved: it is in memory, and the sigmoid is elementwise.
// CHECK-LABEL: func.func private @layer_forward(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<8x4xf32>, %[[W:[a-z0-9]+]]: tensor<4x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)
// CHECK: %[[Y:.*]] = qwen.linear %[[X]], %[[W]]
// CHECK: %[[O:.*]] = arith.addf
// CHECK: return %[[O]], %[[Y]]

// The backward takes the residual, then arguments of the forward, then the
// cotangent, and adds the two cotangents of y and of x.
// CHECK-LABEL: func.func private @layer_backward(
// CHECK-SAME: %[[Y:[a-z0-9]+]]: tensor<8x4xf32>, %[[X:[a-z0-9]+]]: tensor<8x4xf32>, %[[W:[a-z0-9]+]]: tensor<4x4xf32>, %[[DO:[a-z0-9]+]]: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<4x4xf32>)
// CHECK: %[[S:.*]] = qwen.sigmoid %[[Y]]
// CHECK: %[[DY0:.*]] = arith.mulf %[[DO]], %[[S]]
// CHECK: %[[DS:.*]] = arith.mulf %[[DO]], %[[Y]]
// CHECK: %[[DY1:.*]] = arith.mulf %[[DS]]
// CHECK: %[[DY:.*]] = arith.addf %[[DY0]], %[[DY1]]
// CHECK: %[[DX:.*]] = qwen.matmul %[[DY]], %[[W]] : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
// CHECK: %[[DW:.*]] = qwen.matmul %[[DY]], %[[X]] {transpose_a} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
// CHECK: %[[DXS:.*]] = arith.addf %[[DO]], %[[DX]]
// CHECK: return %[[DXS]], %[[DW]]

// Both layers use the same pair; gradients are accumulated where they are made,
// those of the tied embedding at both of its uses.
// CHECK-LABEL: func.func @micro_step(
// CHECK-SAME: %[[TOKENS:[a-z0-9]+]]: tensor<8xi32> {qwen.input = "tokens"}, %[[LABELS:[a-z0-9]+]]: tensor<8xi32> {qwen.input = "labels"}
// CHECK-SAME: %[[SCALE:[a-z0-9]+]]: tensor<f32> {qwen.input = "loss_scale"}) -> (tensor<8xf32> {qwen.output = "nll"}) attributes {qwen.program}
// CHECK: %[[X0:.*]] = qwen.embedding
// CHECK: %[[L0:.*]]:2 = call @layer_forward(%[[X0]], %[[W0:.*]]) :
// CHECK: %[[L1:.*]]:2 = call @layer_forward(%[[L0]]#0, %[[W1:.*]]) :
// CHECK: %[[NLL:.*]] = qwen.linear_cross_entropy %[[L1]]#0
// CHECK: %[[DNLL:.*]] = qwen.broadcast %[[SCALE]] dims = [] : tensor<f32> -> tensor<8xf32>
// CHECK: %{{.*}}, %[[DX2:.*]], %[[DHEAD:.*]] = qwen.linear_cross_entropy_grad %[[L1]]#0, %{{.*}}, %[[LABELS]], %[[DNLL]]
// CHECK-NEXT: qwen.accumulate_grad [@embed], %[[DHEAD]]
// CHECK-NEXT: %[[B1:.*]]:2 = call @layer_backward(%[[L1]]#1, %[[L0]]#0, %[[W1]], %[[DX2]])
// CHECK-NEXT: qwen.accumulate_grad [@w1], %[[B1]]#1
// CHECK-NEXT: %[[B0:.*]]:2 = call @layer_backward(%[[L0]]#1, %[[X0]], %[[W0]], %[[B1]]#0)
// CHECK-NEXT: qwen.accumulate_grad [@w0], %[[B0]]#1
// CHECK-NEXT: %[[DE:.*]] = qwen.embedding_grad %[[B0]]#0, %[[TOKENS]]
// CHECK-NEXT: qwen.accumulate_grad [@embed], %[[DE]]
// CHECK-NEXT: return %[[NLL]]

// CHECK-LABEL: func.func @eval(
// CHECK-SAME: attributes {qwen.program}
// CHECK-NOT: accumulate_grad
// CHECK-COUNT-2: call @layer(
// CHECK-LABEL: func.func @logits(
// CHECK-SAME: attributes {qwen.program}
// CHECK-NOT: @forward
func.func @forward(%tokens: tensor<8xi32> {qwen.input = "tokens"}, %labels: tensor<8xi32> {qwen.input = "labels"}) -> (tensor<8xf32> {qwen.output = "nll"}) {
  %e = qwen.get_parameter [@embed] : tensor<16x4xf32>
  %x0 = qwen.embedding %e, %tokens : tensor<16x4xf32>, tensor<8xi32> -> tensor<8x4xf32>
  %w0 = qwen.get_parameter [@w0] : tensor<4x4xf32>
  %x1 = call @layer(%x0, %w0) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %w1 = qwen.get_parameter [@w1] : tensor<4x4xf32>
  %x2 = call @layer(%x1, %w1) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %head = qwen.get_parameter [@embed] : tensor<16x4xf32>
  %nll = qwen.linear_cross_entropy %x2, %head, %labels : tensor<8x4xf32>, tensor<16x4xf32>, tensor<8xi32> -> tensor<8xf32>
  return %nll : tensor<8xf32>
}
func.func @logits(%tokens: tensor<8xi32> {qwen.input = "tokens"}) -> (tensor<8x16xf32> {qwen.output = "logits"}) {
  %e = qwen.get_parameter [@embed] : tensor<16x4xf32>
  %x0 = qwen.embedding %e, %tokens : tensor<16x4xf32>, tensor<8xi32> -> tensor<8x4xf32>
  %y = qwen.linear %x0, %e : tensor<8x4xf32>, tensor<16x4xf32> -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}
