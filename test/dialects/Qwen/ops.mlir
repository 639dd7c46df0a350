// Every op of the dialect parses, verifies and prints as it was written.
// RUN: qwen-opt %s | qwen-opt | FileCheck %s

// CHECK: qwen.parameter @a.weight : tensor<6x4xbf16> {init = "normal", std = 2.000000e-02 : f64}
qwen.parameter @a.weight : tensor<6x4xbf16> {init = "normal", std = 2.000000e-02 : f64}
// CHECK: qwen.parameter @b.weight : tensor<2x4xbf16> {init = "zero"}
qwen.parameter @b.weight : tensor<2x4xbf16> {init = "zero"}
// CHECK: qwen.parameter @A_log : tensor<4xf32> {decay = false, init = "a_log"}
qwen.parameter @A_log : tensor<4xf32> {decay = false, init = "a_log"}

// CHECK-LABEL: func.func @parameters
func.func @parameters(%g: tensor<8x4xf32>, %hyper: tensor<8xf32>, %rng: tensor<2xi32>) {
  // CHECK: qwen.get_parameter [@a.weight] : tensor<6x4xbf16>
  %a = qwen.get_parameter [@a.weight] : tensor<6x4xbf16>
  // CHECK: qwen.get_parameter [@a.weight, @b.weight] : tensor<8x4xbf16>
  %ab = qwen.get_parameter [@a.weight, @b.weight] : tensor<8x4xbf16>
  // CHECK: qwen.accumulate_grad [@a.weight, @b.weight], %{{.*}} : tensor<8x4xf32>
  qwen.accumulate_grad [@a.weight, @b.weight], %g : tensor<8x4xf32>
  // CHECK: %[[S:.*]] = qwen.grad_norm %{{.*}} of [@a.weight, @b.weight, @A_log] : tensor<8xf32> -> tensor<4xf32>
  %stats = qwen.grad_norm %hyper of [@a.weight, @b.weight, @A_log] : tensor<8xf32> -> tensor<4xf32>
  // CHECK: qwen.adamw %{{.*}}, %[[S]], %{{.*}} of [@A_log] {decay = false, moment_type = f32} : tensor<8xf32>, tensor<4xf32>, tensor<2xi32>
  qwen.adamw %hyper, %stats, %rng of [@A_log] {decay = false, moment_type = f32} : tensor<8xf32>, tensor<4xf32>, tensor<2xi32>
  return
}

// CHECK-LABEL: func.func @products
func.func @products(%x: tensor<8x4xbf16>, %w: tensor<6x4xbf16>, %dy: tensor<8x6xbf16>) {
  // CHECK: qwen.linear %{{.*}} : tensor<8x4xbf16>, tensor<6x4xbf16> -> tensor<8x6xbf16>
  %y = qwen.linear %x, %w : tensor<8x4xbf16>, tensor<6x4xbf16> -> tensor<8x6xbf16>
  // CHECK: qwen.matmul %{{.*}} : tensor<8x6xbf16>, tensor<6x4xbf16> -> tensor<8x4xbf16>
  %dx = qwen.matmul %dy, %w : tensor<8x6xbf16>, tensor<6x4xbf16> -> tensor<8x4xbf16>
  // CHECK: qwen.matmul %{{.*}} {transpose_a} : tensor<8x6xbf16>, tensor<8x4xbf16> -> tensor<6x4xf32>
  %dw = qwen.matmul %dy, %x {transpose_a} : tensor<8x6xbf16>, tensor<8x4xbf16> -> tensor<6x4xf32>
  // CHECK: qwen.matmul %{{.*}} {transpose_b} : tensor<8x4xbf16>, tensor<6x4xbf16> -> tensor<8x6xf32>
  %logits = qwen.matmul %x, %w {transpose_b} : tensor<8x4xbf16>, tensor<6x4xbf16> -> tensor<8x6xf32>
  return
}

// CHECK-LABEL: func.func @rowwise
func.func @rowwise(%x: tensor<8x2x4xbf16>, %w: tensor<4xbf16>, %f: tensor<8x2x4xf32>,
                   %positions: tensor<8xi32>, %scalar: tensor<f32>) {
  // CHECK: qwen.sigmoid %{{.*}} : tensor<8x2x4xf32>
  %s = qwen.sigmoid %f : tensor<8x2x4xf32>
  // CHECK: qwen.softplus %{{.*}} : tensor<8x2x4xf32>
  %p = qwen.softplus %f : tensor<8x2x4xf32>
  // CHECK: qwen.rms_norm %{{.*}} {eps = {{.*}} : f64, offset = 1.000000e+00 : f64} : tensor<8x2x4xbf16>, tensor<4xbf16> -> tensor<8x2x4xf32>
  %n = qwen.rms_norm %x, %w {eps = 1.0e-6 : f64, offset = 1.0 : f64} : tensor<8x2x4xbf16>, tensor<4xbf16> -> tensor<8x2x4xf32>
  // CHECK: qwen.broadcast %{{.*}} dims = [] : tensor<f32> -> tensor<8xf32>
  %b0 = qwen.broadcast %scalar dims = [] : tensor<f32> -> tensor<8xf32>
  // CHECK: qwen.broadcast %{{.*}} dims = [2] : tensor<4xbf16> -> tensor<8x2x4xbf16>
  %b1 = qwen.broadcast %w dims = [2] : tensor<4xbf16> -> tensor<8x2x4xbf16>
  // CHECK: qwen.reduce_sum %{{.*}} dims = [2] : tensor<8x2x4xf32> -> tensor<8x2xf32>
  %r = qwen.reduce_sum %f dims = [2] : tensor<8x2x4xf32> -> tensor<8x2xf32>
  // CHECK: %[[A:.*]] = qwen.rope_angles %{{.*}} {theta = 1.000000e+07 : f64} : tensor<8xi32> -> tensor<8x2xf32>
  %angles = qwen.rope_angles %positions {theta = 1.0e7 : f64} : tensor<8xi32> -> tensor<8x2xf32>
  // CHECK: qwen.rope %{{.*}}, %[[A]] {inverse} : tensor<8x2x4xf32>, tensor<8x2xf32>
  %rope = qwen.rope %f, %angles {inverse} : tensor<8x2x4xf32>, tensor<8x2xf32>
  return
}

// CHECK-LABEL: func.func @shapes
func.func @shapes(%x: tensor<8x6xbf16>) {
  // CHECK: qwen.reshape %{{.*}} : tensor<8x6xbf16> -> tensor<8x3x2xbf16>
  %r = qwen.reshape %x : tensor<8x6xbf16> -> tensor<8x3x2xbf16>
  // CHECK: qwen.split %{{.*}} : tensor<8x6xbf16> -> tensor<8x1xbf16>, tensor<8x5xbf16>
  %s:2 = qwen.split %x : tensor<8x6xbf16> -> tensor<8x1xbf16>, tensor<8x5xbf16>
  // CHECK: qwen.concat %{{.*}}#1, %{{.*}}#0 : tensor<8x5xbf16>, tensor<8x1xbf16> -> tensor<8x6xbf16>
  %c = qwen.concat %s#1, %s#0 : tensor<8x5xbf16>, tensor<8x1xbf16> -> tensor<8x6xbf16>
  return
}

// CHECK-LABEL: func.func @embedding
func.func @embedding(%table: tensor<16x4xbf16>, %ids: tensor<8xi32>, %dy: tensor<8x4xbf16>) {
  // CHECK: qwen.embedding %{{.*}} : tensor<16x4xbf16>, tensor<8xi32> -> tensor<8x4xbf16>
  %y = qwen.embedding %table, %ids : tensor<16x4xbf16>, tensor<8xi32> -> tensor<8x4xbf16>
  // CHECK: qwen.embedding_grad %{{.*}} : tensor<8x4xbf16>, tensor<8xi32> -> tensor<16x4xf32>
  %d = qwen.embedding_grad %dy, %ids : tensor<8x4xbf16>, tensor<8xi32> -> tensor<16x4xf32>
  return
}

// CHECK-LABEL: func.func @conv
func.func @conv(%x: tensor<8x6xbf16>, %w: tensor<6x1x4xbf16>, %cu: tensor<3xi32>) {
  // CHECK: qwen.causal_conv1d %{{.*}}, %{{.*}}, %{{.*}} : tensor<8x6xbf16>, tensor<6x1x4xbf16>, tensor<3xi32> -> tensor<8x6xbf16>
  %y = qwen.causal_conv1d %x, %w, %cu : tensor<8x6xbf16>, tensor<6x1x4xbf16>, tensor<3xi32> -> tensor<8x6xbf16>
  // CHECK: qwen.causal_conv1d_grad {{.*}} -> tensor<8x6xbf16>, tensor<6x1x4xf32>
  %dx, %dw = qwen.causal_conv1d_grad %x, %w, %y, %cu : tensor<8x6xbf16>, tensor<6x1x4xbf16>, tensor<8x6xbf16>, tensor<3xi32> -> tensor<8x6xbf16>, tensor<6x1x4xf32>
  return
}

// CHECK-LABEL: func.func @gated_delta
func.func @gated_delta(%q: tensor<8x2x4xbf16>, %v: tensor<8x6x3xbf16>, %g: tensor<8x6xf32>,
                       %beta: tensor<8x6xbf16>, %cu: tensor<3xi32>) {
  // CHECK: qwen.gated_delta {{.*}} {l2norm_eps = {{.*}} : f64, scale = 5.000000e-01 : f64} : {{.*}} -> tensor<8x6x3xbf16>
  %o = qwen.gated_delta %q, %q, %v, %g, %beta, %cu {l2norm_eps = 1.0e-6 : f64, scale = 0.5 : f64} : tensor<8x2x4xbf16>, tensor<8x2x4xbf16>, tensor<8x6x3xbf16>, tensor<8x6xf32>, tensor<8x6xbf16>, tensor<3xi32> -> tensor<8x6x3xbf16>
  // CHECK: qwen.gated_delta_grad {{.*}} {chunk = 64 : i64, {{.*}} -> tensor<8x2x4xbf16>, tensor<8x2x4xbf16>, tensor<8x6x3xbf16>, tensor<8x6xf32>, tensor<8x6xbf16>
  %d:5 = qwen.gated_delta_grad %q, %q, %v, %g, %beta, %o, %cu {chunk = 64 : i64, l2norm_eps = 1.0e-6 : f64, scale = 0.5 : f64} : tensor<8x2x4xbf16>, tensor<8x2x4xbf16>, tensor<8x6x3xbf16>, tensor<8x6xf32>, tensor<8x6xbf16>, tensor<8x6x3xbf16>, tensor<3xi32> -> tensor<8x2x4xbf16>, tensor<8x2x4xbf16>, tensor<8x6x3xbf16>, tensor<8x6xf32>, tensor<8x6xbf16>
  return
}

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<8x6x4xbf16>, %k: tensor<8x2x4xbf16>, %cu: tensor<3xi32>) {
  // CHECK: qwen.attention {{.*}} {scale = 5.000000e-01 : f64} : {{.*}} -> tensor<8x6x4xbf16>, tensor<8x6xf32>
  %o, %lse = qwen.attention %q, %k, %k, %cu {scale = 0.5 : f64} : tensor<8x6x4xbf16>, tensor<8x2x4xbf16>, tensor<8x2x4xbf16>, tensor<3xi32> -> tensor<8x6x4xbf16>, tensor<8x6xf32>
  // CHECK: qwen.attention_grad {{.*}} -> tensor<8x6x4xbf16>, tensor<8x2x4xbf16>, tensor<8x2x4xbf16>
  %d:3 = qwen.attention_grad %q, %k, %k, %o, %lse, %q, %cu {scale = 0.5 : f64} : tensor<8x6x4xbf16>, tensor<8x2x4xbf16>, tensor<8x2x4xbf16>, tensor<8x6x4xbf16>, tensor<8x6xf32>, tensor<8x6x4xbf16>, tensor<3xi32> -> tensor<8x6x4xbf16>, tensor<8x2x4xbf16>, tensor<8x2x4xbf16>
  return
}

// CHECK-LABEL: func.func @loss
func.func @loss(%x: tensor<8x4xbf16>, %w: tensor<16x4xbf16>, %labels: tensor<8xi32>, %dnll: tensor<8xf32>) {
  // CHECK: qwen.linear_cross_entropy %{{.*}} : tensor<8x4xbf16>, tensor<16x4xbf16>, tensor<8xi32> -> tensor<8xf32>
  %nll = qwen.linear_cross_entropy %x, %w, %labels : tensor<8x4xbf16>, tensor<16x4xbf16>, tensor<8xi32> -> tensor<8xf32>
  // CHECK: qwen.linear_cross_entropy_grad {{.*}} -> tensor<8xf32>, tensor<8x4xbf16>, tensor<16x4xf32>
  %d:3 = qwen.linear_cross_entropy_grad %x, %w, %labels, %dnll : tensor<8x4xbf16>, tensor<16x4xbf16>, tensor<8xi32>, tensor<8xf32> -> tensor<8xf32>, tensor<8x4xbf16>, tensor<16x4xf32>
  return
}

// CHECK-LABEL: func.func @group
func.func @group(%x: tensor<8x4xf32>, %w: tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>) {
  // CHECK: %[[G:.*]]:2 = qwen.group(%[[A:.*]] = %{{.*}} : tensor<8x4xf32>, %[[B:.*]] = %{{.*}} : tensor<4xf32>) domain = [8, 4] attributes {label = "scaled sigmoid"} -> (tensor<8x4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: qwen.broadcast %[[B]] dims = [1]
  // CHECK: qwen.reduce_sum {{.*}} dims = [0]
  // CHECK-NEXT: qwen.yield %{{.*}}, %{{.*}} : tensor<8x4xf32>, tensor<4xf32>
  %y:2 = qwen.group(%a = %x : tensor<8x4xf32>, %b = %w : tensor<4xf32>) domain = [8, 4] attributes {label = "scaled sigmoid"} -> (tensor<8x4xf32>, tensor<4xf32>) {
    %0 = qwen.broadcast %b dims = [1] : tensor<4xf32> -> tensor<8x4xf32>
    %1 = qwen.sigmoid %a : tensor<8x4xf32>
    %2 = arith.mulf %0, %1 : tensor<8x4xf32>
    %3 = qwen.reduce_sum %2 dims = [0] : tensor<8x4xf32> -> tensor<4xf32>
    qwen.yield %2, %3 : tensor<8x4xf32>, tensor<4xf32>
  }
  return %y#0, %y#1 : tensor<8x4xf32>, tensor<4xf32>
}

// CHECK: qwen.bucket @bucket.bf16 : tensor<128xbf16> {offsets = array<i64: 0, 24>, parameters = [@a.weight, @b.weight]}
qwen.bucket @bucket.bf16 : tensor<128xbf16> {offsets = array<i64: 0, 24>, parameters = [@a.weight, @b.weight]}

// CHECK-LABEL: func.func @ranks
func.func @ranks(%g: tensor<128xf32>, %ids: tensor<3xi32>) {
  // CHECK: %[[F:.*]] = qwen.all_gather @bucket.bf16 : tensor<128xbf16>
  %flat = qwen.all_gather @bucket.bf16 : tensor<128xbf16>
  // CHECK: qwen.bucket_part %[[F]][24] [@b.weight] : tensor<128xbf16> -> tensor<2x4xbf16>
  %b = qwen.bucket_part %flat[24] [@b.weight] : tensor<128xbf16> -> tensor<2x4xbf16>
  // CHECK: qwen.reduce_scatter @bucket.bf16, %{{.*}} {overwrite} : tensor<128xf32>
  qwen.reduce_scatter @bucket.bf16, %g {overwrite} : tensor<128xf32>
  // CHECK: %[[Y:.*]] = qwen.sharded_embedding @bucket.bf16[@b.weight], %{{.*}} : tensor<3xi32> -> tensor<3x4xbf16>
  %y = qwen.sharded_embedding @bucket.bf16[@b.weight], %ids : tensor<3xi32> -> tensor<3x4xbf16>
  // CHECK: qwen.sharded_embedding_grad @bucket.bf16[@b.weight], %[[Y]], %{{.*}} {overwrite} : tensor<3x4xbf16>, tensor<3xi32>
  qwen.sharded_embedding_grad @bucket.bf16[@b.weight], %y, %ids {overwrite} : tensor<3x4xbf16>, tensor<3xi32>
  return
}
