// Units by call, stacks without gaps, buckets by element type, gathers ahead of
// their use, gradients joined and scattered.
// RUN: qwen-opt %s --qwen-sharding="world-size=3 embedding-exchange=table" --verify-sharding=world-size=3 | FileCheck %s
// RUN: qwen-opt %s --qwen-sharding="world-size=3 embedding-exchange=table prefetch=0" | FileCheck %s --check-prefix=LATE
// RUN: qwen-opt %s --qwen-sharding="world-size=3 embedding-exchange=table reshard-after-forward=false" | FileCheck %s --check-prefix=KEEP
// RUN: qwen-opt %s --qwen-sharding="world-size=3 embedding-exchange=table remarks=true" 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: qwen-opt %s --qwen-sharding="world-size=3 embedding-exchange=table grad-type=bf16" --verify-sharding=world-size=3 | FileCheck %s --check-prefix=NARROW
// RUN: qwen-opt %s --verify-sharding | FileCheck %s --check-prefix=ONE

// NARROW: qwen.bucket @m.embed.bf16 : tensor<192xbf16> {gradient_type = bf16, offsets
// NARROW: qwen.bucket @m.0.f32 : tensor<192xf32> {gradient_type = bf16, offsets

// ONE-NOT: qwen.bucket
qwen.parameter @m.embed.weight : tensor<16x8xbf16> {init = "zero"}
qwen.parameter @m.0.a.weight : tensor<3x8xbf16> {init = "zero"}
qwen.parameter @m.0.scale : tensor<5xf32> {init = "zero"}
qwen.parameter @m.0.c.weight : tensor<8x8xbf16> {init = "zero"}
qwen.parameter @m.0.b.weight : tensor<5x8xbf16> {init = "zero"}
qwen.parameter @m.norm.weight : tensor<8xbf16> {init = "zero"}

// A unit a layer: the stack a, b first, then c at the next multiple of 64; its
// f32 parameter apart. 128 = 64 + 64 elements, padded to a multiple of 192.
// CHECK: qwen.bucket @m.embed.bf16 : tensor<192xbf16> {offsets = array<i64: 0>, parameters = [@m.embed.weight]}
// CHECK-NEXT: qwen.bucket @m.0.bf16 : tensor<192xbf16> {offsets = array<i64: 0, 24, 64>, parameters = [@m.0.a.weight, @m.0.b.weight, @m.0.c.weight]}
// CHECK-NEXT: qwen.bucket @m.0.f32 : tensor<192xf32> {offsets = array<i64: 0>, parameters = [@m.0.scale]}
// CHECK-NEXT: qwen.bucket @m.norm.bf16.frozen : tensor<192xbf16>

func.func private @layer_forward(%x: tensor<4x8xbf16>, %ab: tensor<8x8xbf16>, %c: tensor<8x8xbf16>, %s: tensor<5xf32>) -> tensor<4x8xbf16>
func.func private @layer_backward(%x: tensor<4x8xbf16>, %ab: tensor<8x8xbf16>, %c: tensor<8x8xbf16>, %s: tensor<5xf32>, %dy: tensor<4x8xbf16>) -> (tensor<4x8xbf16>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<5xf32>)

// CHECK-LABEL: func.func @micro_step
// LATE-LABEL: func.func @micro_step
// KEEP-LABEL: func.func @micro_step
func.func @micro_step(%ids: tensor<4xi32> {qwen.input = "tokens"}) -> (tensor<4x8xbf16> {qwen.output = "y"}) attributes {qwen.program} {
  // The layer is gathered before the embedding is used.
  // CHECK-NEXT: %[[E:.*]] = qwen.all_gather @m.embed.bf16 : tensor<192xbf16>
  // CHECK-NEXT: %[[EW:.*]] = qwen.bucket_part %[[E]][0] [@m.embed.weight] : tensor<192xbf16> -> tensor<16x8xbf16>
  // CHECK-NEXT: %[[F:.*]] = qwen.all_gather @m.0.bf16
  // CHECK-NEXT: %[[FS:.*]] = qwen.all_gather @m.0.f32
  // CHECK-NEXT: qwen.embedding %[[EW]]
  // CHECK: %[[AB:.*]] = qwen.bucket_part %[[F]][0] [@m.0.a.weight, @m.0.b.weight] : tensor<192xbf16> -> tensor<8x8xbf16>
  // CHECK: %[[C:.*]] = qwen.bucket_part %[[F]][64] [@m.0.c.weight]
  // CHECK: qwen.all_gather @m.norm.bf16.frozen
  // CHECK-NEXT: call @layer_forward(%{{.*}}, %[[AB]], %[[C]]
  // LATE: qwen.all_gather @m.embed.bf16
  // LATE: qwen.embedding
  // LATE: qwen.all_gather @m.0.bf16
  // LATE-NEXT: qwen.all_gather @m.0.f32
  // LATE: call @layer_forward
  // LATE: qwen.all_gather @m.norm.bf16.frozen
  // KEEP-COUNT-1: qwen.all_gather @m.0.bf16
  // KEEP-NOT: qwen.all_gather @m.0.bf16
  // KEEP: return
  %e = qwen.get_parameter [@m.embed.weight] : tensor<16x8xbf16>
  %x = qwen.embedding %e, %ids : tensor<16x8xbf16>, tensor<4xi32> -> tensor<4x8xbf16>
  %ab = qwen.get_parameter [@m.0.a.weight, @m.0.b.weight] : tensor<8x8xbf16>
  %c = qwen.get_parameter [@m.0.c.weight] : tensor<8x8xbf16>
  %s = qwen.get_parameter [@m.0.scale] : tensor<5xf32>
  %y = call @layer_forward(%x, %ab, %c, %s) : (tensor<4x8xbf16>, tensor<8x8xbf16>, tensor<8x8xbf16>, tensor<5xf32>) -> tensor<4x8xbf16>
  %n = qwen.get_parameter [@m.norm.weight] : tensor<8xbf16>
  %d = qwen.rms_norm %y, %n {eps = 1.0e-6 : f64, offset = 1.0 : f64} : tensor<4x8xbf16>, tensor<8xbf16> -> tensor<4x8xbf16>
  // The layer again for its backward, before the norm is used.
  // CHECK: qwen.all_gather @m.0.bf16
  // CHECK: qwen.rms_norm
  // CHECK: %[[G:.*]]:4 = call @layer_backward
  %g:4 = call @layer_backward(%x, %ab, %c, %s, %d) : (tensor<4x8xbf16>, tensor<8x8xbf16>, tensor<8x8xbf16>, tensor<5xf32>, tensor<4x8xbf16>) -> (tensor<4x8xbf16>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<5xf32>)
  // CHECK-NEXT: %[[GAB:.*]] = qwen.reshape %[[G]]#1 : tensor<8x8xf32> -> tensor<64xf32>
  // CHECK-NEXT: %[[GC:.*]] = qwen.reshape %[[G]]#2
  // CHECK-NEXT: %[[PAD:.*]] = arith.constant dense<0.000000e+00> : tensor<64xf32>
  // CHECK-NEXT: %[[GF:.*]] = qwen.concat %[[GAB]], %[[GC]], %[[PAD]] : tensor<64xf32>, tensor<64xf32>, tensor<64xf32> -> tensor<192xf32>
  // CHECK-NEXT: qwen.reduce_scatter @m.0.bf16, %[[GF]] : tensor<192xf32>
  // CHECK: %[[GS:.*]] = qwen.concat %[[G]]#3, %{{.*}} : tensor<5xf32>, tensor<187xf32> -> tensor<192xf32>
  // CHECK-NEXT: qwen.reduce_scatter @m.0.f32, %[[GS]]
  qwen.accumulate_grad [@m.0.a.weight, @m.0.b.weight], %g#1 : tensor<8x8xf32>
  qwen.accumulate_grad [@m.0.c.weight], %g#2 : tensor<8x8xf32>
  qwen.accumulate_grad [@m.0.scale], %g#3 : tensor<5xf32>
  // Two contributions, two scatters.
  // CHECK-COUNT-2: qwen.reduce_scatter @m.embed.bf16
  // CHECK-NOT: qwen.reduce_scatter
  // CHECK-NOT: qwen.get_parameter
  %h = qwen.embedding_grad %g#0, %ids : tensor<4x8xbf16>, tensor<4xi32> -> tensor<16x8xf32>
  qwen.accumulate_grad [@m.embed.weight], %h : tensor<16x8xf32>
  %i = qwen.embedding_grad %d, %ids : tensor<4x8xbf16>, tensor<4xi32> -> tensor<16x8xf32>
  qwen.accumulate_grad [@m.embed.weight], %i : tensor<16x8xf32>
  return %y : tensor<4x8xbf16>
}

// REMARK: remark: unit m.embed, bucket m.embed.bf16 of 192 elements, 64 on each rank
// REMARK: note: @micro_step gathers 384 bytes before qwen.embedding, 0 units ahead
// REMARK: note: @micro_step scatters 768 bytes after the last of their gradients
// REMARK: remark: unit m.0, bucket m.0.bf16 of 192 elements, 64 on each rank, bucket m.0.f32 of 192 elements, 64 on each rank
// REMARK: note: @micro_step gathers 384 bytes before qwen.embedding, 1 unit ahead
