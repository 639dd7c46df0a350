// Every op of the dialect parses, verifies and prints as it was written.
// RUN: qwen-opt %s | qwen-opt | FileCheck %s

// CHECK-LABEL: func.func @products
func.func @products(%a: memref<8x4xbf16>, %b: memref<6x4xbf16>, %c: memref<8x6xbf16>, %d: memref<8x6xbf16>, %w: memref<6x4xf32>) {
  // CHECK: kernel.gemm ins(%{{.*}}, %{{.*}} : memref<8x4xbf16>, memref<6x4xbf16>) outs(%{{.*}} : memref<8x6xbf16>) {transpose_b = true}
  kernel.gemm ins(%a, %b : memref<8x4xbf16>, memref<6x4xbf16>) outs(%c : memref<8x6xbf16>) {transpose_b = true}
  // CHECK: kernel.gemm ins({{.*}}) addend(%{{.*}} : memref<8x6xbf16>) outs(%{{.*}} : memref<8x6xbf16>) {transpose_b = true}
  kernel.gemm ins(%a, %b : memref<8x4xbf16>, memref<6x4xbf16>) addend(%c : memref<8x6xbf16>) outs(%d : memref<8x6xbf16>) {transpose_b = true}
  // CHECK: kernel.gemm {{.*}} outs(%{{.*}} : memref<6x4xf32>) {accumulate = true, transpose_a = true}
  kernel.gemm ins(%c, %a : memref<8x6xbf16>, memref<8x4xbf16>) outs(%w : memref<6x4xf32>) {accumulate = true, transpose_a = true}
  return
}

// CHECK-LABEL: func.func @tokens
func.func @tokens(%table: memref<16x4xf32>, %ids: memref<8xi32>, %x: memref<8x4xf32>, %angles: memref<8x2xf32>) {
  // CHECK: kernel.embedding ins(%{{.*}}, %{{.*}} : memref<16x4xf32>, memref<8xi32>) outs(%{{.*}} : memref<8x4xf32>)
  kernel.embedding ins(%table, %ids : memref<16x4xf32>, memref<8xi32>) outs(%x : memref<8x4xf32>)
  // CHECK: kernel.embedding_grad ins(%{{.*}}, %{{.*}} : memref<8x4xf32>, memref<8xi32>) outs(%{{.*}} : memref<16x4xf32>) {accumulate = true}
  kernel.embedding_grad ins(%x, %ids : memref<8x4xf32>, memref<8xi32>) outs(%table : memref<16x4xf32>) {accumulate = true}
  // CHECK: kernel.rope_angles ins(%{{.*}} : memref<8xi32>) outs(%{{.*}} : memref<8x2xf32>) {theta = 1.000000e+07 : f64}
  kernel.rope_angles ins(%ids : memref<8xi32>) outs(%angles : memref<8x2xf32>) {theta = 1.0e7 : f64}
  // CHECK: kernel.fill outs(%{{.*}} : memref<8x4xf32>) {value = 0.000000e+00 : f64}
  kernel.fill outs(%x : memref<8x4xf32>) {value = 0.0 : f64}
  return
}

// CHECK-LABEL: func.func @views
func.func @views(%x: memref<8x6xf32>, %y: memref<8x2xf32>) {
  // CHECK: %[[V:.*]] = kernel.view %{{.*}}[4] : memref<8x6xf32> to memref<8x2xf32, strided<[6, 1]>>
  %v = kernel.view %x[4] : memref<8x6xf32> to memref<8x2xf32, strided<[6, 1]>>
  // CHECK: kernel.copy ins(%[[V]] : memref<8x2xf32, strided<[6, 1]>>) outs(%{{.*}} : memref<8x2xf32>)
  kernel.copy ins(%v : memref<8x2xf32, strided<[6, 1]>>) outs(%y : memref<8x2xf32>)
  return
}

// CHECK-LABEL: func.func @conv
func.func @conv(%x: memref<8x6xf32>, %w: memref<6x1x4xf32>, %cu: memref<3xi32>, %y: memref<8x6xf32>) {
  // CHECK: kernel.causal_conv1d ins({{.*}}) outs(%{{.*}} : memref<8x6xf32>)
  kernel.causal_conv1d ins(%x, %w, %cu : memref<8x6xf32>, memref<6x1x4xf32>, memref<3xi32>) outs(%y : memref<8x6xf32>)
  // CHECK: kernel.causal_conv1d_grad ins({{.*}}) outs(%{{.*}}, %{{.*}} : memref<8x6xf32>, memref<6x1x4xf32>)
  kernel.causal_conv1d_grad ins(%x, %w, %x, %cu : memref<8x6xf32>, memref<6x1x4xf32>, memref<8x6xf32>, memref<3xi32>) outs(%y, %w : memref<8x6xf32>, memref<6x1x4xf32>)
  return
}

// CHECK-LABEL: func.func @mixers
func.func @mixers(%q: memref<8x2x4xf32>, %g: memref<8x2xf32>, %cu: memref<3xi32>, %o: memref<8x2x4xf32>, %lse: memref<8x2xf32>) {
  // CHECK: kernel.gated_delta ins({{.*}}) outs({{.*}}) {chunk = 64 : i64, l2norm_eps = {{.*}} : f64, scale = 5.000000e-01 : f64}
  kernel.gated_delta ins(%q, %q, %q, %g, %g, %cu : memref<8x2x4xf32>, memref<8x2x4xf32>, memref<8x2x4xf32>, memref<8x2xf32>, memref<8x2xf32>, memref<3xi32>) outs(%o : memref<8x2x4xf32>) {chunk = 64 : i64, l2norm_eps = 1.0e-6 : f64, scale = 0.5 : f64}
  // CHECK: kernel.attention ins({{.*}}) outs(%{{.*}}, %{{.*}} : memref<8x2x4xf32>, memref<8x2xf32>) {scale = 5.000000e-01 : f64}
  kernel.attention ins(%q, %q, %q, %cu : memref<8x2x4xf32>, memref<8x2x4xf32>, memref<8x2x4xf32>, memref<3xi32>) outs(%o, %lse : memref<8x2x4xf32>, memref<8x2xf32>) {scale = 0.5 : f64}
  return
}

// CHECK-LABEL: func.func @mixer_gradients
func.func @mixer_gradients(%q: memref<8x2x4xf32>, %g: memref<8x2xf32>, %cu: memref<3xi32>, %a: memref<8x2x4xf32>, %b: memref<8x2x4xf32>, %c: memref<8x2x4xf32>, %d: memref<8x2xf32>, %e: memref<8x2xf32>) {
  // CHECK: kernel.gated_delta_grad ins({{.*}}) outs({{.*}} : memref<8x2x4xf32>, memref<8x2x4xf32>, memref<8x2x4xf32>, memref<8x2xf32>, memref<8x2xf32>)
  kernel.gated_delta_grad ins(%q, %q, %q, %g, %g, %q, %cu : memref<8x2x4xf32>, memref<8x2x4xf32>, memref<8x2x4xf32>, memref<8x2xf32>, memref<8x2xf32>, memref<8x2x4xf32>, memref<3xi32>) outs(%a, %b, %c, %d, %e : memref<8x2x4xf32>, memref<8x2x4xf32>, memref<8x2x4xf32>, memref<8x2xf32>, memref<8x2xf32>) {chunk = 64 : i64, l2norm_eps = 1.0e-6 : f64, scale = 0.5 : f64}
  // CHECK: kernel.attention_grad ins({{.*}}) outs({{.*}} : memref<8x2x4xf32>, memref<8x2x4xf32>, memref<8x2x4xf32>)
  kernel.attention_grad ins(%q, %q, %q, %q, %g, %q, %cu : memref<8x2x4xf32>, memref<8x2x4xf32>, memref<8x2x4xf32>, memref<8x2x4xf32>, memref<8x2xf32>, memref<8x2x4xf32>, memref<3xi32>) outs(%a, %b, %c : memref<8x2x4xf32>, memref<8x2x4xf32>, memref<8x2x4xf32>) {scale = 0.5 : f64}
  return
}

// CHECK-LABEL: func.func @loss
func.func @loss(%x: memref<8x4xf32>, %w: memref<16x4xf32>, %labels: memref<8xi32>, %nll: memref<8xf32>, %d: memref<8xf32>) {
  // CHECK: kernel.linear_cross_entropy ins({{.*}}) outs(%{{.*}} : memref<8xf32>)
  kernel.linear_cross_entropy ins(%x, %w, %labels : memref<8x4xf32>, memref<16x4xf32>, memref<8xi32>) outs(%nll : memref<8xf32>)
  // CHECK: kernel.linear_cross_entropy_grad ins({{.*}}) outs({{.*}} : memref<8xf32>, memref<8x4xf32>, memref<16x4xf32>) {accumulate = true}
  kernel.linear_cross_entropy_grad ins(%x, %w, %labels, %d : memref<8x4xf32>, memref<16x4xf32>, memref<8xi32>, memref<8xf32>) outs(%nll, %x, %w : memref<8xf32>, memref<8x4xf32>, memref<16x4xf32>) {accumulate = true}
  return
}

qwen.parameter @w : tensor<6x4xf32> {init = "zero"}

// CHECK-LABEL: func.func @optimizer
func.func @optimizer(%hyper: memref<8xf32>, %stats: memref<4xf32>, %rng: memref<2xi32>) {
  // CHECK: kernel.storage parameter [@w] : memref<6x4xf32>
  %p = kernel.storage parameter [@w] : memref<6x4xf32>
  // CHECK: kernel.storage gradient [@w] : memref<6x4xf32>
  %g = kernel.storage gradient [@w] : memref<6x4xf32>
  %m = kernel.storage moment1 [@w] : memref<6x4xf32>
  %v = kernel.storage moment2 [@w] : memref<6x4xf32>
  // CHECK: kernel.grad_norm grads(%{{.*}} : memref<6x4xf32>) ins(%{{.*}} : memref<8xf32>) outs(%{{.*}} : memref<4xf32>)
  kernel.grad_norm grads(%g : memref<6x4xf32>) ins(%hyper : memref<8xf32>) outs(%stats : memref<4xf32>)
  // CHECK: kernel.adamw params(%{{.*}} : memref<6x4xf32>) grads({{.*}}) moments1({{.*}}) moments2({{.*}}) masters() ins({{.*}}) {decay = true, tensor_ids = array<i64: 0>}
  kernel.adamw params(%p : memref<6x4xf32>) grads(%g : memref<6x4xf32>) moments1(%m : memref<6x4xf32>) moments2(%v : memref<6x4xf32>) masters() ins(%hyper, %stats, %rng : memref<8xf32>, memref<4xf32>, memref<2xi32>) {decay = true, tensor_ids = array<i64: 0>}
  return
}

// CHECK-LABEL: kernel.group_function @double attributes
// CHECK: ^bb0(%{{.*}}: tensor<8x4xf32>):
kernel.group_function @double attributes {domain = array<i64: 8, 4>, rows_per_block = 4 : i64,
    input_types = [memref<8x4xf32>], output_types = [memref<8x4xf32, strided<[6, 1]>>], column_sums = array<i64>} {
^bb0(%x: tensor<8x4xf32>):
  %y = arith.addf %x, %x : tensor<8x4xf32>
  qwen.yield %y : tensor<8x4xf32>
}

// CHECK-LABEL: func.func @group
func.func @group(%x: memref<8x4xf32>, %y: memref<8x4xf32, strided<[6, 1]>>) {
  // CHECK: kernel.group @double ins(%{{.*}} : memref<8x4xf32>) outs(%{{.*}} : memref<8x4xf32, strided<[6, 1]>>) {flops_per_row = 4 : i64, rows = 8 : i64, rows_per_block = 4 : i64}
  kernel.group @double ins(%x : memref<8x4xf32>) outs(%y : memref<8x4xf32, strided<[6, 1]>>) {flops_per_row = 4 : i64, rows = 8 : i64, rows_per_block = 4 : i64}
  return
}

// CHECK: kernel.binary @code {object = "\7FELF", target = "x86-64-v3"}
kernel.binary @code {object = "\7FELF", target = "x86-64-v3"}

// CHECK: kernel.binary @gpu {object = "\7FELF", symbols = [#kernel.code_symbol<name = "double", rows = 8, operand_bytes = [1024, 1024], operand_alignments = [16, 16], column_sums = [0], threads = 256, blocks = 1, shared_bytes = 0>], target = "sm_90a"}
kernel.binary @gpu {object = "\7FELF", target = "sm_90a", symbols = [
  #kernel.code_symbol<name = "double", rows = 8, operand_bytes = [1024, 1024], operand_alignments = [16, 16],
                      column_sums = [0], threads = 256, blocks = 1, shared_bytes = 0>]}

// CHECK-LABEL: func.func @ranks
func.func @ranks(%w: memref<64xbf16>, %full: memref<128xbf16>, %grads: memref<128xf32>, %shard: memref<64xf32>,
                 %sum: memref<1xf64>, %sums: memref<2xf64>, %hyper: memref<8xf32>, %stats: memref<4xf32>,
                 %ids: memref<6xi32>, %rows: memref<6x8xf32>, %grad: memref<6x8xbf16>) {
  // CHECK: kernel.all_gather ins(%{{.*}} : memref<64xbf16>) outs(%{{.*}} : memref<128xbf16>)
  kernel.all_gather ins(%w : memref<64xbf16>) outs(%full : memref<128xbf16>)
  // CHECK: kernel.reduce_scatter ins(%{{.*}} : memref<128xf32>) outs(%{{.*}} : memref<64xf32>) {accumulate = true}
  kernel.reduce_scatter ins(%grads : memref<128xf32>) outs(%shard : memref<64xf32>) {accumulate = true}
  // CHECK: kernel.grad_norm_local grads(%{{.*}} : memref<64xf32>) outs(%{{.*}} : memref<1xf64>)
  kernel.grad_norm_local grads(%shard : memref<64xf32>) outs(%sum : memref<1xf64>)
  // CHECK: kernel.grad_norm_combine ins(%{{.*}}, %{{.*}} : memref<2xf64>, memref<8xf32>) outs(%{{.*}} : memref<4xf32>)
  kernel.grad_norm_combine ins(%sums, %hyper : memref<2xf64>, memref<8xf32>) outs(%stats : memref<4xf32>)
  // CHECK: kernel.embedding_shard ins(%{{.*}}, %{{.*}} : memref<64xbf16>, memref<6xi32>) outs(%{{.*}} : memref<6x8xf32>) {begin = 16 : i64, rows = 10 : i64}
  kernel.embedding_shard ins(%w, %ids : memref<64xbf16>, memref<6xi32>) outs(%rows : memref<6x8xf32>) {begin = 16 : i64, rows = 10 : i64}
  // CHECK: kernel.embedding_grad_shard ins(%{{.*}}, %{{.*}} : memref<6x8xbf16>, memref<6xi32>) outs(%{{.*}} : memref<64xf32>) {accumulate = true, begin = 16 : i64, rows = 10 : i64}
  kernel.embedding_grad_shard ins(%grad, %ids : memref<6x8xbf16>, memref<6xi32>) outs(%shard : memref<64xf32>) {accumulate = true, begin = 16 : i64, rows = 10 : i64}
  // CHECK: kernel.storage gradient bucket [@b] : memref<64xf32>
  %b = kernel.storage gradient bucket [@b] : memref<64xf32>
  return
}
