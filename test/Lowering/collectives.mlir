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

qwen.parameter @t : tensor<20x8xbf16> {init = "zero"}
qwen.bucket @tb : tensor<256xbf16> {parameters = [@t], offsets = array<i64: 64>}

// Ids of all ranks are gathered; of what each finds in its shard, every rank
// gets the sum for its own. Gradients are gathered and added in the shard.
// CHECK-LABEL: func.func @rows
func.func @rows(%ids: tensor<4xi32> {qwen.input = "ids"}) attributes {qwen.program} {
  // CHECK: kernel.all_gather ins(%{{.*}} : memref<4xi32>) outs(%[[IDS:.*]] : memref<8xi32>)
  // CHECK: %[[PARTS:.*]] = memref.alloc() {qwen.name = "rows.of.ranks"} : memref<64xf32>
  // CHECK: %[[SHARD:.*]] = kernel.storage parameter bucket [@tb] : memref<128xbf16>
  // CHECK: kernel.embedding_shard ins(%[[SHARD]], %[[IDS]] : memref<128xbf16>, memref<8xi32>) outs(%{{.*}} : memref<8x8xf32>) {begin = 64 : i64, rows = 20 : i64}
  // CHECK: kernel.reduce_scatter ins(%[[PARTS]] : memref<64xf32>) outs(%{{.*}} : memref<32xbf16>)
  %x = qwen.sharded_embedding @tb[@t], %ids : tensor<4xi32> -> tensor<4x8xbf16>
  // CHECK: kernel.all_gather ins(%{{.*}} : memref<4xi32>) outs(%[[AGAIN:.*]] : memref<8xi32>)
  // CHECK: kernel.all_gather ins(%{{.*}} : memref<32xbf16>) outs(%{{.*}} : memref<64xbf16>)
  // CHECK: %[[GRAD:.*]] = kernel.storage gradient bucket [@tb] : memref<128xf32>
  // CHECK: kernel.embedding_grad_shard ins(%{{.*}}, %[[AGAIN]] : memref<8x8xbf16>, memref<8xi32>) outs(%[[GRAD]] : memref<128xf32>) {begin = 64 : i64, rows = 20 : i64}
  qwen.sharded_embedding_grad @tb[@t], %x, %ids {overwrite} : tensor<4x8xbf16>, tensor<4xi32>
  return
}
}
