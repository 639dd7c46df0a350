// Ranks exchange rows of the embedding where these are less than the table.
// RUN: qwen-opt %s --qwen-sharding="world-size=2" --verify-sharding=world-size=2 | FileCheck %s --check-prefixes=CHECK,AUTO
// RUN: qwen-opt %s --qwen-sharding="world-size=2 embedding-exchange=rows" --verify-sharding=world-size=2 | FileCheck %s --check-prefixes=CHECK,ROWS
// RUN: qwen-opt %s --qwen-sharding="world-size=2 embedding-exchange=table" --verify-sharding=world-size=2 | FileCheck %s --check-prefix=TABLE
// RUN: qwen-opt %s --qwen-sharding="world-size=2 remarks=true" 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: remark: unit m.embed, bucket m.embed.bf16
// REMARK: note: @micro_step looks up the rows of all ranks' tokens, scatters 256 bytes
// REMARK: note: @micro_step gathers 128 bytes, the gradients of all ranks' rows

// TABLE-NOT: qwen.sharded_embedding
qwen.parameter @m.embed.weight : tensor<32x8xbf16> {init = "zero"}
// A small table: 6 tokens of two ranks in f32 are no less than 12 rows in bf16,
// but their gradients in bf16 are.
qwen.parameter @m.small.weight : tensor<12x8xbf16> {init = "zero"}
// Two tables of one bucket are gathered and scattered with it.
qwen.parameter @m.pair.a : tensor<32x8xbf16> {init = "zero"}
qwen.parameter @m.pair.b : tensor<32x8xbf16> {init = "zero"}

func.func private @layer(%x: tensor<4x8xbf16>, %w: tensor<12x8xbf16>) -> tensor<4x8xbf16>

// CHECK-LABEL: func.func @micro_step
// CHECK-SAME:    %[[IDS:.*]]: tensor<4xi32> {qwen.input = "tokens"}
func.func @micro_step(%ids: tensor<4xi32> {qwen.input = "tokens"}) -> (tensor<4x8xbf16> {qwen.output = "y"}) attributes {qwen.program} {
  // CHECK-NOT: qwen.all_gather @m.embed.bf16
  // CHECK: %[[X:.*]] = qwen.sharded_embedding @m.embed.bf16[@m.embed.weight], %[[IDS]] : tensor<4xi32> -> tensor<4x8xbf16>
  %e = qwen.get_parameter [@m.embed.weight] : tensor<32x8xbf16>
  %x = qwen.embedding %e, %ids : tensor<32x8xbf16>, tensor<4xi32> -> tensor<4x8xbf16>
  %s = qwen.get_parameter [@m.small.weight] : tensor<12x8xbf16>
  // The head of a tied table is gathered.
  // AUTO: qwen.all_gather @m.small.bf16
  // CHECK: call @layer(%[[X]]
  %y = call @layer(%x, %s) : (tensor<4x8xbf16>, tensor<12x8xbf16>) -> tensor<4x8xbf16>
  // AUTO: qwen.embedding
  // ROWS: qwen.sharded_embedding @m.small.bf16[@m.small.weight]
  %z = qwen.embedding %s, %ids : tensor<12x8xbf16>, tensor<4xi32> -> tensor<4x8xbf16>
  // CHECK: qwen.embedding
  // CHECK: qwen.embedding
  %a = qwen.get_parameter [@m.pair.a] : tensor<32x8xbf16>
  %b = qwen.get_parameter [@m.pair.b] : tensor<32x8xbf16>
  %ya = qwen.embedding %a, %ids : tensor<32x8xbf16>, tensor<4xi32> -> tensor<4x8xbf16>
  %yb = qwen.embedding %b, %ids : tensor<32x8xbf16>, tensor<4xi32> -> tensor<4x8xbf16>
  // CHECK: qwen.sharded_embedding_grad @m.embed.bf16[@m.embed.weight], %[[X]], %[[IDS]] {overwrite} : tensor<4x8xbf16>, tensor<4xi32>
  %de = qwen.embedding_grad %x, %ids : tensor<4x8xbf16>, tensor<4xi32> -> tensor<32x8xf32>
  qwen.accumulate_grad [@m.embed.weight], %de {overwrite} : tensor<32x8xf32>
  // CHECK: qwen.sharded_embedding_grad @m.small.bf16[@m.small.weight]
  // CHECK-NOT: overwrite
  %ds = qwen.embedding_grad %z, %ids : tensor<4x8xbf16>, tensor<4xi32> -> tensor<12x8xf32>
  qwen.accumulate_grad [@m.small.weight], %ds : tensor<12x8xf32>
  // CHECK: qwen.reduce_scatter @m.pair.bf16
  %da = qwen.embedding_grad %ya, %ids : tensor<4x8xbf16>, tensor<4xi32> -> tensor<32x8xf32>
  %db = qwen.embedding_grad %yb, %ids : tensor<4x8xbf16>, tensor<4xi32> -> tensor<32x8xf32>
  qwen.accumulate_grad [@m.pair.a], %da : tensor<32x8xf32>
  qwen.accumulate_grad [@m.pair.b], %db : tensor<32x8xf32>
  return %y : tensor<4x8xbf16>
}
