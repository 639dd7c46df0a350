// RUN: qwen-opt %s -qwen-lower-to-kernels | FileCheck %s

module attributes {qwen.world_size = 2 : i64} {

qwen.parameter @w : tensor<128xf32> {init = "zero"}
qwen.bucket @b : tensor<128xf32> {parameters = [@w], offsets = array<i64: 0>, gradient_type = bf16}

func.func private @twice(%x: tensor<128xf32>) -> tensor<128xf32> {
  return %x : tensor<128xf32>
}

// Gathered buckets are allocations; the gradient's shard has the bucket's type.
// CHECK-LABEL: func.func @micro_step
func.func @micro_step(%x: tensor<128xf32> {qwen.input = "x"}) attributes {qwen.program} {
  // CHECK: %[[SHARD:.*]] = kernel.storage parameter bucket [@b] : memref<64xf32>
  // CHECK: kernel.all_gather ins(%[[SHARD]] : memref<64xf32>) outs(%[[W:.*]] : memref<128xf32>)
  %w = qwen.all_gather @b : tensor<128xf32>
  %part = qwen.bucket_part %w[0] [@w] : tensor<128xf32> -> tensor<128xf32>
  // CHECK: %[[G:.*]] = memref.alloc() {qwen.name = "twice"}
  // CHECK: call @twice(%[[W]], %[[G]])
  %g = call @twice(%part) : (tensor<128xf32>) -> tensor<128xf32>
  // CHECK-NOT: kernel.copy
  // CHECK: %[[GRAD:.*]] = kernel.storage gradient bucket [@b] : memref<64xbf16>
  // CHECK: kernel.reduce_scatter ins(%[[G]] : memref<128xf32>) outs(%[[GRAD]] : memref<64xbf16>) {accumulate = true}
  qwen.reduce_scatter @b, %g : tensor<128xf32>
  return
}

// A scatter destroys its operand: what is used later is copied before.
// CHECK-LABEL: func.func @first_micro_step
// CHECK-SAME:    %{{.*}}: memref<128xf32> {qwen.input = "x"}, %[[Y:.*]]: memref<128xf32> {qwen.output = "y"}
func.func @first_micro_step(%x: tensor<128xf32> {qwen.input = "x"}) -> (tensor<128xf32> {qwen.output = "y"}) attributes {qwen.program} {
  // CHECK: call @twice(%{{.*}}, %[[Y]])
  %g = call @twice(%x) : (tensor<128xf32>) -> tensor<128xf32>
  // CHECK: %[[COPY:.*]] = memref.alloc() {qwen.name = "copy"}
  // CHECK: kernel.copy ins(%[[Y]] : memref<128xf32>) outs(%[[COPY]] : memref<128xf32>)
  // CHECK: kernel.reduce_scatter ins(%[[COPY]] : memref<128xf32>)
  qwen.reduce_scatter @b, %g {overwrite} : tensor<128xf32>
  return %g : tensor<128xf32>
}
}
