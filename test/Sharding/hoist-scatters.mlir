// RUN: qwen-opt %s -pass-pipeline="builtin.module(func.func(qwen-hoist-scatters))" | FileCheck %s

qwen.parameter @a : tensor<3x8xf32> {init = "zero"}
qwen.parameter @b : tensor<64xf32> {init = "zero"}
qwen.bucket @a.f32 : tensor<128xf32> {parameters = [@a], offsets = array<i64: 0>}
qwen.bucket @b.f32 : tensor<128xf32> {parameters = [@b], offsets = array<i64: 0>}

func.func private @da(%x: tensor<4xf32>) -> tensor<3x8xf32>
func.func private @dab(%x: tensor<4xf32>) -> (tensor<3x8xf32>, tensor<128xf32>)

// The first scatter moves with what joins its operand; padding that stands
// earlier, where others may use it, stays. Scatters of a bucket keep their order,
// and the last one, of an argument, stands behind the one before.
// CHECK-LABEL: func.func @micro_step
func.func @micro_step(%x: tensor<4xf32>, %g: tensor<128xf32>) attributes {qwen.program} {
  // CHECK-NEXT: %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<104xf32>
  // CHECK-NEXT: %[[DA:.*]] = call @da
  // CHECK-NEXT: %[[FLAT:.*]] = qwen.reshape %[[DA]]
  // CHECK-NEXT: %[[JOINED:.*]] = qwen.concat %[[FLAT]], %[[ZERO]]
  // CHECK-NEXT: qwen.reduce_scatter @a.f32, %[[JOINED]] {overwrite}
  // CHECK-NEXT: %[[BOTH:.*]]:2 = call @dab
  // CHECK-NEXT: qwen.reduce_scatter @b.f32, %[[BOTH]]#1
  // CHECK-NEXT: qwen.reduce_scatter @b.f32, %{{[a-z0-9]+}} : tensor<128xf32>
  // CHECK-NEXT: qwen.reshape %[[BOTH]]#0
  // CHECK-NEXT: qwen.concat
  // CHECK-NEXT: qwen.reduce_scatter @a.f32
  // CHECK-NEXT: return
  %zero = arith.constant dense<0.0> : tensor<104xf32>
  %da = call @da(%x) : (tensor<4xf32>) -> tensor<3x8xf32>
  %both:2 = call @dab(%x) : (tensor<4xf32>) -> (tensor<3x8xf32>, tensor<128xf32>)
  %0 = qwen.reshape %da : tensor<3x8xf32> -> tensor<24xf32>
  %1 = qwen.concat %0, %zero : tensor<24xf32>, tensor<104xf32> -> tensor<128xf32>
  qwen.reduce_scatter @a.f32, %1 {overwrite} : tensor<128xf32>
  %2 = qwen.reshape %both#0 : tensor<3x8xf32> -> tensor<24xf32>
  %3 = qwen.concat %2, %zero : tensor<24xf32>, tensor<104xf32> -> tensor<128xf32>
  qwen.reduce_scatter @a.f32, %3 : tensor<128xf32>
  qwen.reduce_scatter @b.f32, %both#1 {overwrite} : tensor<128xf32>
  qwen.reduce_scatter @b.f32, %g : tensor<128xf32>
  return
}
