// RUN: qwen-opt %s -qwen-assign-offsets -verify-memory | FileCheck %s

// Who may take over whose memory. Every allocation that shares has the slot of
// the one before it.

// %b reads %a, but %a is needed later: no sharing.
// CHECK-LABEL: func.func @still_needed
// CHECK:         qwen.slot = 0 : i64} : memref<4x8xf32>
// CHECK:         qwen.slot = 1 : i64} : memref<4x8xf32>
func.func @still_needed(%x: memref<4x8xf32> {qwen.input = "x"}, %y: memref<4x8xf32> {qwen.output = "y1"}) attributes {qwen.program} {
  %a = memref.alloc() : memref<4x8xf32>
  %b = memref.alloc() : memref<4x8xf32>
  kernel.copy ins(%x : memref<4x8xf32>) outs(%a : memref<4x8xf32>)
  kernel.group @g ins(%a : memref<4x8xf32>) outs(%b : memref<4x8xf32>) {rows = 4 : i64, rows_per_block = 4 : i64, flops_per_row = 8 : i64}
  kernel.group @h ins(%a, %b : memref<4x8xf32>, memref<4x8xf32>) outs(%y : memref<4x8xf32>) {rows = 4 : i64, rows_per_block = 4 : i64, flops_per_row = 8 : i64}
  return
}

// The group also reads half of %a in another way: rows move, no sharing.
// CHECK-LABEL: func.func @read_in_two_ways
// CHECK:         qwen.slot = 0 : i64} : memref<4x8xf32>
// CHECK:         qwen.slot = 1 : i64} : memref<4x8xf32>
func.func @read_in_two_ways(%x: memref<4x8xf32> {qwen.input = "x"}, %y: memref<4x8xf32> {qwen.output = "y2"}) attributes {qwen.program} {
  %a = memref.alloc() : memref<4x8xf32>
  %b = memref.alloc() : memref<4x8xf32>
  %row = kernel.view %a[8] : memref<4x8xf32> to memref<8xf32>
  kernel.copy ins(%x : memref<4x8xf32>) outs(%a : memref<4x8xf32>)
  kernel.group @g ins(%a, %row : memref<4x8xf32>, memref<8xf32>) outs(%b : memref<4x8xf32>) {rows = 4 : i64, rows_per_block = 4 : i64, flops_per_row = 8 : i64}
  kernel.copy ins(%b : memref<4x8xf32>) outs(%y : memref<4x8xf32>)
  return
}

// A GEMM reads its operands several times: no sharing.
// CHECK-LABEL: func.func @not_a_group
// CHECK:         qwen.slot = 0 : i64} : memref<8x8xf32>
// CHECK:         qwen.slot = 1 : i64} : memref<8x8xf32>
func.func @not_a_group(%x: memref<8x8xf32> {qwen.input = "z"}, %y: memref<8x8xf32> {qwen.output = "y3"}) attributes {qwen.program} {
  %a = memref.alloc() : memref<8x8xf32>
  %b = memref.alloc() : memref<8x8xf32>
  kernel.copy ins(%x : memref<8x8xf32>) outs(%a : memref<8x8xf32>)
  kernel.gemm ins(%a, %x : memref<8x8xf32>, memref<8x8xf32>) outs(%b : memref<8x8xf32>)
  kernel.copy ins(%b : memref<8x8xf32>) outs(%y : memref<8x8xf32>)
  return
}

// Two outputs, one dead input: one of them takes it over. A chain of groups
// stays in one place.
// CHECK-LABEL: func.func @chain
// CHECK:         qwen.slot = 0 : i64} : memref<4x8xf32>
// CHECK:         qwen.slot = 0 : i64} : memref<4x8xf32>
// CHECK:         qwen.slot = 1 : i64} : memref<4x8xf32>
// CHECK:         qwen.slot = 0 : i64} : memref<4x8xf32>
func.func @chain(%x: memref<4x8xf32> {qwen.input = "x"}, %y: memref<4x8xf32> {qwen.output = "y4"}) attributes {qwen.program} {
  %a = memref.alloc() : memref<4x8xf32>
  %b = memref.alloc() : memref<4x8xf32>
  %c = memref.alloc() : memref<4x8xf32>
  %d = memref.alloc() : memref<4x8xf32>
  kernel.copy ins(%x : memref<4x8xf32>) outs(%a : memref<4x8xf32>)
  kernel.group @g ins(%a : memref<4x8xf32>) outs(%b, %c : memref<4x8xf32>, memref<4x8xf32>) {rows = 4 : i64, rows_per_block = 4 : i64, flops_per_row = 8 : i64}
  kernel.group @h ins(%b, %c : memref<4x8xf32>, memref<4x8xf32>) outs(%d : memref<4x8xf32>) {rows = 4 : i64, rows_per_block = 4 : i64, flops_per_row = 8 : i64}
  kernel.copy ins(%d : memref<4x8xf32>) outs(%y : memref<4x8xf32>)
  return
}
