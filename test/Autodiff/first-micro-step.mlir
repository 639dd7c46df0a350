// RUN: qwen-opt %s --qwen-first-micro-step | FileCheck %s

// Both programs are there; the copy overwrites what it reaches first, in the
// order that it runs. @embed is tied: it gets a second contribution.
qwen.parameter @embed : tensor<4xf32> {init = "one"}
qwen.parameter @w : tensor<4xf32> {init = "one"}
qwen.parameter @x : tensor<4xf32> {init = "one"}
qwen.parameter @y : tensor<4xf32> {init = "one"}

// What accumulates itself is copied for the call where it is the first.
// CHECK-LABEL: func.func private @shared_backward(
// CHECK: qwen.accumulate_grad [@w], %{{.*}} : tensor<4xf32>
// CHECK-LABEL: func.func private @shared_backward_first(
// CHECK-SAME: attributes {qwen.specializes = "shared_backward"}
// CHECK: qwen.accumulate_grad [@w], %{{.*}} {overwrite} : tensor<4xf32>
func.func private @shared_backward(%g: tensor<4xf32>) {
  qwen.accumulate_grad [@w], %g : tensor<4xf32>
  return
}

// CHECK-LABEL: func.func private @plain(
// CHECK-NOT: func.func private @plain
func.func private @plain(%g: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %g, %g : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @micro_step(
// CHECK-SAME: attributes {qwen.program}
// CHECK-NOT: overwrite
// CHECK: return
// CHECK-LABEL: func.func @first_micro_step(
// CHECK-SAME: %[[G:.*]]: tensor<4xf32> {qwen.input = "g"}, %[[S:.*]]: tensor<8xf32>
// CHECK-SAME: attributes {qwen.program}
// CHECK: %[[P:.*]] = call @plain(%[[G]])
// CHECK: qwen.accumulate_grad [@embed], %[[P]] {overwrite} : tensor<4xf32>
// CHECK: call @shared_backward_first(%[[G]])
// CHECK: call @shared_backward(%[[P]])
// CHECK: qwen.accumulate_grad [@x, @y], %[[S]] {overwrite} : tensor<8xf32>
// CHECK: qwen.accumulate_grad [@x, @y], %[[S]] : tensor<8xf32>
// CHECK: qwen.accumulate_grad [@embed], %[[G]] : tensor<4xf32>
// CHECK: qwen.accumulate_grad [@w], %[[G]] : tensor<4xf32>
func.func @micro_step(%g: tensor<4xf32> {qwen.input = "g"}, %s: tensor<8xf32> {qwen.input = "s"}) attributes {qwen.program} {
  %p = call @plain(%g) : (tensor<4xf32>) -> tensor<4xf32>
  qwen.accumulate_grad [@embed], %p : tensor<4xf32>
  call @shared_backward(%g) : (tensor<4xf32>) -> ()
  call @shared_backward(%p) : (tensor<4xf32>) -> ()
  qwen.accumulate_grad [@x, @y], %s : tensor<8xf32>
  qwen.accumulate_grad [@x, @y], %s : tensor<8xf32>
  qwen.accumulate_grad [@embed], %g : tensor<4xf32>
  qwen.accumulate_grad [@w], %g : tensor<4xf32>
  return
}
