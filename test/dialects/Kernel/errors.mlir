// Kernel calls and structure ops with faults: buffers that cannot be described,
// operands that do not fit, views that leave their source.
// RUN: qwen-opt %s -split-input-file -verify-diagnostics

func.func @dynamic(%x: memref<?x4xf32>) {
  // expected-error @+1 {{'kernel.fill' op operand #0 must have a static shape, but is 'memref<?x4xf32>'}}
  kernel.fill outs(%x : memref<?x4xf32>) {value = 0.0 : f64}
  return
}

// -----

func.func @empty(%x: memref<0x4xf32>) {
  // expected-error @+1 {{'kernel.fill' op operand #0 must have dimensions between 1 and 2147483647, but is 'memref<0x4xf32>'}}
  kernel.fill outs(%x : memref<0x4xf32>) {value = 0.0 : f64}
  return
}

// -----

func.func @rank(%x: memref<1x1x1x1x1xf32>) {
  // expected-error @+1 {{'kernel.fill' op operand #0 must have at most 4 dimensions, but is 'memref<1x1x1x1x1xf32>'}}
  kernel.fill outs(%x : memref<1x1x1x1x1xf32>) {value = 0.0 : f64}
  return
}

// -----

func.func @element(%x: memref<4xi8>) {
  // expected-error @+1 {{'kernel.fill' op operand #0 must have f32, bf16, f64 or i32 elements, but is 'memref<4xi8>'}}
  kernel.fill outs(%x : memref<4xi8>) {value = 0.0 : f64}
  return
}

// -----

func.func @offset(%x: memref<4xf32, strided<[1], offset: 2>>) {
  // expected-error @+1 {{'kernel.fill' op operand #0 must have an identity layout or strides with offset 0}}
  kernel.fill outs(%x : memref<4xf32, strided<[1], offset: 2>>) {value = 0.0 : f64}
  return
}

// -----

func.func @dynamic_stride(%x: memref<4x4xf32, strided<[?, 1]>>) {
  // expected-error @+1 {{'kernel.fill' op operand #0 must have static strides}}
  kernel.fill outs(%x : memref<4x4xf32, strided<[?, 1]>>) {value = 0.0 : f64}
  return
}

// -----

// Two elements at one address.
func.func @overlapping(%x: memref<4x5xf32, affine_map<(i, j) -> (i + j)>>) {
  // expected-error @+1 {{'kernel.fill' op fill: operand 'out': expected each element at its own address, found f32[4, 5] strides [1, 1]}}
  kernel.fill outs(%x : memref<4x5xf32, affine_map<(i, j) -> (i + j)>>) {value = 0.0 : f64}
  return
}

// -----

func.func @gemm_addend(%a: memref<8x4xf32>, %b: memref<4x6xf32>, %r: memref<8x5xf32>, %c: memref<8x6xf32>) {
  // expected-error @+1 {{'kernel.gemm' op gemm: operand 'addend': expected}}
  kernel.gemm ins(%a, %b : memref<8x4xf32>, memref<4x6xf32>) addend(%r : memref<8x5xf32>) outs(%c : memref<8x6xf32>)
  return
}

// -----

func.func @gemm(%a: memref<8x4xf32>, %b: memref<5x6xf32>, %c: memref<8x6xf32>) {
  // expected-error @+1 {{'kernel.gemm' op gemm: operand 'b': expected}}
  kernel.gemm ins(%a, %b : memref<8x4xf32>, memref<5x6xf32>) outs(%c : memref<8x6xf32>)
  return
}

// -----

func.func @conv_boundaries(%x: memref<8x6xf32>, %w: memref<6x1x4xf32>, %cu: memref<1xi32>, %y: memref<8x6xf32>) {
  // expected-error @+1 {{'kernel.causal_conv1d' op causal_conv1d: operand 'cu_seqlens': expected}}
  kernel.causal_conv1d ins(%x, %w, %cu : memref<8x6xf32>, memref<6x1x4xf32>, memref<1xi32>) outs(%y : memref<8x6xf32>)
  return
}

// -----

func.func @ids(%table: memref<16x4xf32>, %ids: memref<8xf32>, %x: memref<8x4xf32>) {
  // expected-error @+1 {{'kernel.embedding' op operand #1 must be memref of 32-bit signless integer values, but got 'memref<8xf32>'}}
  kernel.embedding ins(%table, %ids : memref<16x4xf32>, memref<8xf32>) outs(%x : memref<8x4xf32>)
  return
}

// -----

func.func @view_end(%x: memref<8x6xf32>) {
  // expected-error @+1 {{'kernel.view' op must stay inside its source of 48 elements, but reaches element 48}}
  %v = kernel.view %x[5] : memref<8x6xf32> to memref<8x2xf32, strided<[6, 1]>>
  return
}

// -----

func.func @view_offset(%x: memref<8x6xf32>) {
  // expected-error @+1 {{'kernel.view' op offset must be between 0 and 281474976710656, but is -1}}
  %v = kernel.view %x[-1] : memref<8x6xf32> to memref<8x2xf32, strided<[6, 1]>>
  return
}

// -----

func.func @view_element(%x: memref<8x6xf32>) {
  // expected-error @+1 {{'kernel.view' op must keep the element type, but the source is 'memref<8x6xf32>' and the result 'memref<8x6xbf16>'}}
  %v = kernel.view %x[0] : memref<8x6xf32> to memref<8x6xbf16>
  return
}

// -----

func.func @lookup(%w: memref<64xf32>, %ids: memref<6xi32>, %rows: memref<6x8xf32>) {
  // expected-error @+1 {{'kernel.embedding_shard' op embedding_shard: expected rows in [1, 2147483647], found 0}}
  kernel.embedding_shard ins(%w, %ids : memref<64xf32>, memref<6xi32>) outs(%rows : memref<6x8xf32>) {begin = 0 : i64, rows = 0 : i64}
  return
}

// -----

func.func @storage() {
  // expected-error @+1 {{'kernel.storage' op must name at least one parameter}}
  %w = kernel.storage parameter [] : memref<6x4xf32>
  return
}

// -----

func.func @group_sums(%x: memref<8x4xf32>, %y: memref<4xf32>) {
  // expected-error @+1 {{'kernel.group' op group: expected increasing output numbers below 1 in 'column_sums', found 1 after -1}}
  kernel.group @f ins(%x : memref<8x4xf32>) outs(%y : memref<4xf32>) {flops_per_row = 4 : i64, rows = 8 : i64, rows_per_block = 4 : i64, column_sums = array<i64: 1>}
  return
}

// -----

// expected-error @+1 {{'kernel.group_function' op must have one block argument, as a tensor, for each of its 1 inputs}}
kernel.group_function @f attributes {domain = array<i64: 8, 4>, rows_per_block = 4 : i64,
    input_types = [memref<8x4xf32>], output_types = [memref<8x4xf32>], column_sums = array<i64>} {
^bb0(%x: tensor<8x5xf32>):
  qwen.yield %x : tensor<8x5xf32>
}

// -----

// expected-error @+1 {{'kernel.group_function' op must yield one value, as a tensor, for each of its 2 outputs}}
kernel.group_function @f attributes {domain = array<i64: 8, 4>, rows_per_block = 4 : i64,
    input_types = [memref<8x4xf32>], output_types = [memref<8x4xf32>, memref<8x4xf32>], column_sums = array<i64>} {
^bb0(%x: tensor<8x4xf32>):
  qwen.yield %x : tensor<8x4xf32>
}

// -----

// expected-error @+1 {{'kernel.group_function' op input_types and output_types must be memrefs, but one is 'tensor<8x4xf32>'}}
kernel.group_function @f attributes {domain = array<i64: 8, 4>, rows_per_block = 4 : i64,
    input_types = [tensor<8x4xf32>], output_types = [memref<8x4xf32>], column_sums = array<i64>} {
^bb0(%x: tensor<8x4xf32>):
  qwen.yield %x : tensor<8x4xf32>
}

// -----

// expected-error @+1 {{'kernel.group_function' op column_sums must number one of the 1 outputs, but has 3}}
kernel.group_function @f attributes {domain = array<i64: 8, 4>, rows_per_block = 4 : i64,
    input_types = [memref<8x4xf32>], output_types = [memref<8x4xf32>], column_sums = array<i64: 3>} {
^bb0(%x: tensor<8x4xf32>):
  qwen.yield %x : tensor<8x4xf32>
}

// -----

// expected-error @+1 {{'kernel.group_function' op rows_per_block must be at least 1, but is 0}}
kernel.group_function @f attributes {domain = array<i64: 8, 4>, rows_per_block = 0 : i64,
    input_types = [memref<8x4xf32>], output_types = [memref<8x4xf32>], column_sums = array<i64>} {
^bb0(%x: tensor<8x4xf32>):
  qwen.yield %x : tensor<8x4xf32>
}

// -----

kernel.binary @code {object = "", target = "x86-64", symbols = [
  // expected-error @+1 {{code symbol 'f' has 2 operand_bytes and 1 operand_alignments, expected as many}}
  #kernel.code_symbol<name = "f", rows = 8, operand_bytes = [1, 2], operand_alignments = [4],
                      column_sums = [], threads = 0, blocks = 0, shared_bytes = 0>]}

// -----

func.func @gather(%w: memref<64xf32>, %full: memref<100xf32>) {
  // expected-error @+1 {{'kernel.all_gather' op all_gather: operand 'full': expected a multiple of the 64 elements of 'shard', found f32[100]}}
  kernel.all_gather ins(%w : memref<64xf32>) outs(%full : memref<100xf32>)
  return
}

// -----

func.func @storage() {
  // expected-error @+1 {{'kernel.storage' op of a bucket must name one bucket and be a flat memref}}
  %b = kernel.storage gradient bucket [@b, @c] : memref<64xf32>
  return
}
