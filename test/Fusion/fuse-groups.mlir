// RUN: qwen-opt %s -qwen-decompose -qwen-normalize-shapes -cse -qwen-fuse-groups -verify-fusion | FileCheck %s
// RUN: qwen-opt %s -qwen-decompose -qwen-normalize-shapes -cse -qwen-fuse-groups=fuse=false -verify-fusion | FileCheck %s --check-prefix=ALONE

// Residual add and norm: one kernel with two results, the sum rounded once.
// CHECK-LABEL: func.func @add_rms_norm
// CHECK: %[[G:.*]]:2 = qwen.group
// CHECK-SAME: domain = [8, 64] attributes {label = "add_rms_norm"} -> (tensor<8x64xbf16>, tensor<8x64xbf16>)
// CHECK: qwen.yield
// CHECK-NOT: qwen.group
// CHECK: qwen.linear %[[G]]#1
// CHECK-NOT: qwen.group
// CHECK: return %[[G]]#0
// Each op alone: a group an op, results in memory between them.
// ALONE-LABEL: func.func @add_rms_norm
// ALONE-COUNT-14: qwen.group
// ALONE: qwen.linear
func.func @add_rms_norm(%x: tensor<8x64xbf16>, %y: tensor<8x64xbf16>, %w: tensor<64xbf16>, %p: tensor<32x64xbf16>)
    -> (tensor<8x64xbf16>, tensor<8x32xbf16>) {
  %x0 = arith.extf %x : tensor<8x64xbf16> to tensor<8x64xf32>
  %y0 = arith.extf %y : tensor<8x64xbf16> to tensor<8x64xf32>
  %s0 = arith.addf %x0, %y0 : tensor<8x64xf32>
  %s = arith.truncf %s0 : tensor<8x64xf32> to tensor<8x64xbf16>
  %n = qwen.rms_norm %s, %w {eps = 1.0e-6 : f64, offset = 1.0 : f64} : tensor<8x64xbf16>, tensor<64xbf16> -> tensor<8x64xbf16>
  %z = qwen.linear %n, %p : tensor<8x64xbf16>, tensor<32x64xbf16> -> tensor<8x32xbf16>
  return %s, %z : tensor<8x64xbf16>, tensor<8x32xbf16>
}

// SiLU times up, both slices of one product's result.
// CHECK-LABEL: func.func @silu_up
// CHECK: qwen.split
// CHECK-NEXT: qwen.group
// CHECK-SAME: label = "silu_mul"
// CHECK: qwen.sigmoid
// CHECK-COUNT-2: arith.mulf
// CHECK: qwen.yield
// CHECK-NOT: qwen.group
// CHECK: return
func.func @silu_up(%gu: tensor<8x128xf32>, %down: tensor<16x64xf32>) -> tensor<8x16xf32> {
  %g, %u = qwen.split %gu : tensor<8x128xf32> -> tensor<8x64xf32>, tensor<8x64xf32>
  %s = qwen.sigmoid %g : tensor<8x64xf32>
  %a = arith.mulf %g, %s : tensor<8x64xf32>
  %h = arith.mulf %a, %u : tensor<8x64xf32>
  %y = qwen.linear %h, %down : tensor<8x64xf32>, tensor<16x64xf32> -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}

// Sigmoid gate times attention runs over heads, where the gate is a slice.
// CHECK-LABEL: func.func @gate
// CHECK: qwen.group
// CHECK-SAME: domain = [8, 2, 4] attributes {label = "sigmoid_mul"}
// CHECK-NOT: qwen.group
// CHECK: qwen.linear
func.func @gate(%o: tensor<8x2x4xbf16>, %qg: tensor<8x2x8xbf16>, %w: tensor<16x8xbf16>) -> tensor<8x16xbf16> {
  %q, %g = qwen.split %qg : tensor<8x2x8xbf16> -> tensor<8x2x4xbf16>, tensor<8x2x4xbf16>
  %g1 = qwen.reshape %g : tensor<8x2x4xbf16> -> tensor<8x8xbf16>
  %o1 = qwen.reshape %o : tensor<8x2x4xbf16> -> tensor<8x8xbf16>
  %ge = arith.extf %g1 : tensor<8x8xbf16> to tensor<8x8xf32>
  %oe = arith.extf %o1 : tensor<8x8xbf16> to tensor<8x8xf32>
  %s = qwen.sigmoid %ge : tensor<8x8xf32>
  %m = arith.mulf %oe, %s : tensor<8x8xf32>
  %y = arith.truncf %m : tensor<8x8xf32> to tensor<8x8xbf16>
  %z = qwen.linear %y, %w : tensor<8x8xbf16>, tensor<16x8xbf16> -> tensor<8x16xbf16>
  return %z : tensor<8x16xbf16>
}

// Gated norm: the norm over a head's values and SiLU of a flat slice.
// CHECK-LABEL: func.func @gated_norm
// CHECK: qwen.group
// CHECK-SAME: domain = [8, 2, 32] attributes {label = "rms_norm_silu"}
// CHECK-NOT: qwen.group
// CHECK: return
func.func @gated_norm(%o: tensor<8x2x32xbf16>, %z: tensor<8x64xbf16>, %w: tensor<32xbf16>, %p: tensor<16x64xbf16>) -> tensor<8x16xbf16> {
  %n = qwen.rms_norm %o, %w {eps = 1.0e-6 : f64, offset = 0.0 : f64} : tensor<8x2x32xbf16>, tensor<32xbf16> -> tensor<8x2x32xf32>
  %n1 = qwen.reshape %n : tensor<8x2x32xf32> -> tensor<8x64xf32>
  %ze = arith.extf %z : tensor<8x64xbf16> to tensor<8x64xf32>
  %s = qwen.sigmoid %ze : tensor<8x64xf32>
  %zs = arith.mulf %ze, %s : tensor<8x64xf32>
  %m = arith.mulf %n1, %zs : tensor<8x64xf32>
  %y = arith.truncf %m : tensor<8x64xf32> to tensor<8x64xbf16>
  %r = qwen.linear %y, %p : tensor<8x64xbf16>, tensor<16x64xbf16> -> tensor<8x16xbf16>
  return %r : tensor<8x16xbf16>
}

// q norm and rotation, k norm and rotation: one kernel each.
// CHECK-LABEL: func.func @qk
// CHECK: qwen.group
// CHECK-SAME: domain = [8, 4, 32] attributes {label = "rms_norm_rope"}
// CHECK: qwen.group
// CHECK-SAME: domain = [8, 2, 32] attributes {label = "rms_norm_rope"}
// CHECK-NOT: qwen.group
// CHECK: qwen.attention
func.func @qk(%qkv: tensor<8x256xbf16>, %qw: tensor<32xbf16>, %kw: tensor<32xbf16>, %angles: tensor<8x16xf32>, %cu: tensor<3xi32>) -> tensor<8x4x32xbf16> {
  %q0, %k0, %v0 = qwen.split %qkv : tensor<8x256xbf16> -> tensor<8x128xbf16>, tensor<8x64xbf16>, tensor<8x64xbf16>
  %q1 = qwen.reshape %q0 : tensor<8x128xbf16> -> tensor<8x4x32xbf16>
  %k1 = qwen.reshape %k0 : tensor<8x64xbf16> -> tensor<8x2x32xbf16>
  %v = qwen.reshape %v0 : tensor<8x64xbf16> -> tensor<8x2x32xbf16>
  %q2 = qwen.rms_norm %q1, %qw {eps = 1.0e-6 : f64, offset = 1.0 : f64} : tensor<8x4x32xbf16>, tensor<32xbf16> -> tensor<8x4x32xf32>
  %k2 = qwen.rms_norm %k1, %kw {eps = 1.0e-6 : f64, offset = 1.0 : f64} : tensor<8x2x32xbf16>, tensor<32xbf16> -> tensor<8x2x32xf32>
  %q3 = qwen.rope %q2, %angles : tensor<8x4x32xf32>, tensor<8x16xf32>
  %k3 = qwen.rope %k2, %angles : tensor<8x2x32xf32>, tensor<8x16xf32>
  %q = arith.truncf %q3 : tensor<8x4x32xf32> to tensor<8x4x32xbf16>
  %k = arith.truncf %k3 : tensor<8x2x32xf32> to tensor<8x2x32xbf16>
  %o, %lse = qwen.attention %q, %k, %v, %cu {scale = 0.125 : f64} : tensor<8x4x32xbf16>, tensor<8x2x32xbf16>, tensor<8x2x32xbf16>, tensor<3xi32> -> tensor<8x4x32xbf16>, tensor<8x4xf32>
  return %o : tensor<8x4x32xbf16>
}

// beta and decay share no value, but both are a few elements a token for the
// same kernel: one launch.
// CHECK-LABEL: func.func @beta_and_decay
// CHECK: qwen.group
// CHECK-SAME: domain = [8, 4]
// CHECK-SAME: -> (tensor<8x4xbf16>, tensor<8x4xf32>)
// CHECK-NOT: qwen.group
// CHECK: qwen.gated_delta
func.func @beta_and_decay(%ba: tensor<8x8xbf16>, %a_log: tensor<4xf32>, %dt_bias: tensor<4xf32>,
    %q: tensor<8x2x16xbf16>, %k: tensor<8x2x16xbf16>, %v: tensor<8x4x16xbf16>, %cu: tensor<3xi32>) -> tensor<8x4x16xbf16> {
  %b, %a = qwen.split %ba : tensor<8x8xbf16> -> tensor<8x4xbf16>, tensor<8x4xbf16>
  %be = arith.extf %b : tensor<8x4xbf16> to tensor<8x4xf32>
  %bs = qwen.sigmoid %be : tensor<8x4xf32>
  %beta = arith.truncf %bs : tensor<8x4xf32> to tensor<8x4xbf16>
  %ae = arith.extf %a : tensor<8x4xbf16> to tensor<8x4xf32>
  %dtb = qwen.broadcast %dt_bias dims = [1] : tensor<4xf32> -> tensor<8x4xf32>
  %sum = arith.addf %ae, %dtb : tensor<8x4xf32>
  %sp = qwen.softplus %sum : tensor<8x4xf32>
  %e = math.exp %a_log : tensor<4xf32>
  %ne = arith.negf %e : tensor<4xf32>
  %eb = qwen.broadcast %ne dims = [1] : tensor<4xf32> -> tensor<8x4xf32>
  %g = arith.mulf %eb, %sp : tensor<8x4xf32>
  %o = qwen.gated_delta %q, %k, %v, %g, %beta, %cu {scale = 0.25 : f64, l2norm_eps = 1.0e-6 : f64}
      : tensor<8x2x16xbf16>, tensor<8x2x16xbf16>, tensor<8x4x16xbf16>, tensor<8x4xf32>, tensor<8x4xbf16>, tensor<3xi32> -> tensor<8x4x16xbf16>
  return %o : tensor<8x4x16xbf16>
}

// Backward of a norm with the residual's cotangent: the weight gradient is a
// column sum of the same kernel.
// CHECK-LABEL: func.func @norm_backward
// CHECK: %[[G:.*]]:2 = qwen.group
// CHECK-SAME: label = "{{.*}}_backward"
// CHECK: qwen.reduce_sum %{{.*}} dims = [0]
// CHECK: qwen.yield
// CHECK-NOT: qwen.group
// CHECK: return
func.func @norm_backward(%x: tensor<8x64xf32>, %w: tensor<64xf32>, %dn: tensor<8x64xf32>, %dres: tensor<8x64xf32>)
    -> (tensor<8x64xf32>, tensor<64xf32>) {
  %sq = arith.mulf %x, %x : tensor<8x64xf32>
  %ss = qwen.reduce_sum %sq dims = [1] : tensor<8x64xf32> -> tensor<8xf32>
  %count = arith.constant dense<64.0> : tensor<8xf32>
  %mean = arith.divf %ss, %count : tensor<8xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<8xf32>
  %me = arith.addf %mean, %eps : tensor<8xf32>
  %r = math.rsqrt %me : tensor<8xf32>
  %rb = qwen.broadcast %r dims = [0] : tensor<8xf32> -> tensor<8x64xf32>
  %xh = arith.mulf %x, %rb : tensor<8x64xf32>
  %dyx = arith.mulf %dn, %xh : tensor<8x64xf32>
  %dw = qwen.reduce_sum %dyx dims = [0] : tensor<8x64xf32> -> tensor<64xf32>
  %one = arith.constant dense<1.0> : tensor<64xf32>
  %w1 = arith.addf %w, %one : tensor<64xf32>
  %wb = qwen.broadcast %w1 dims = [1] : tensor<64xf32> -> tensor<8x64xf32>
  %dxh = arith.mulf %dn, %wb : tensor<8x64xf32>
  %t = arith.mulf %dxh, %xh : tensor<8x64xf32>
  %ts = qwen.reduce_sum %t dims = [1] : tensor<8x64xf32> -> tensor<8xf32>
  %tm = arith.divf %ts, %count : tensor<8xf32>
  %tb = qwen.broadcast %tm dims = [0] : tensor<8xf32> -> tensor<8x64xf32>
  %u = arith.mulf %xh, %tb : tensor<8x64xf32>
  %v = arith.subf %dxh, %u : tensor<8x64xf32>
  %dx = arith.mulf %v, %rb : tensor<8x64xf32>
  %total = arith.addf %dres, %dx : tensor<8x64xf32>
  return %total, %dw : tensor<8x64xf32>, tensor<64xf32>
}

// Joining both sums would make the product depend on itself: two groups.
// CHECK-LABEL: func.func @no_cycle
// CHECK: qwen.group
// CHECK: qwen.linear
// CHECK: qwen.group
// CHECK-NOT: qwen.group
// CHECK: return
func.func @no_cycle(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %a = arith.addf %x, %y : tensor<8x8xf32>
  %l = qwen.linear %a, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %b = arith.addf %a, %l : tensor<8x8xf32>
  return %b : tensor<8x8xf32>
}

// What reads a column sum waits for all rows: another group.
// CHECK-LABEL: func.func @column_sum_ends
// CHECK: qwen.group
// CHECK: qwen.reduce_sum
// CHECK-NEXT: qwen.yield
// CHECK: qwen.group
func.func @column_sum_ends(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %s = qwen.reduce_sum %x dims = [0] : tensor<8x4xf32> -> tensor<4xf32>
  %b = qwen.broadcast %s dims = [1] : tensor<4xf32> -> tensor<8x4xf32>
  %y = arith.subf %x, %b : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// A scalar spread over tokens, a vector: one row of N elements.
// CHECK-LABEL: func.func @vectors
// CHECK-DAG: qwen.group(%{{.*}} = %{{.*}} : tensor<f32>) domain = [1, 8] attributes {label = "broadcast"} -> tensor<1x8xf32>
// CHECK-DAG: qwen.reshape %{{.*}} : tensor<1x8xf32> -> tensor<8xf32>
// CHECK-DAG: qwen.group(%{{.*}} = %{{.*}} : tensor<1x8xf32>) domain = [1, 8] attributes {label = "exp"} -> tensor<1x8xf32>
func.func @vectors(%scale: tensor<f32>, %v: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = qwen.broadcast %scale dims = [] : tensor<f32> -> tensor<8xf32>
  %1 = math.exp %v : tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// A comparison has no storable result: it is made again where it is used, even
// with one op a group.
// CHECK-LABEL: func.func @compare
// ALONE-LABEL: func.func @compare
// ALONE: qwen.group
// ALONE: arith.cmpf
// ALONE-NEXT: arith.select
func.func @compare(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %c = arith.cmpf ogt, %x, %y : tensor<8x4xf32>
  %s = arith.select %c, %x, %y : tensor<8x4xi1>, tensor<8x4xf32>
  return %s : tensor<8x4xf32>
}
