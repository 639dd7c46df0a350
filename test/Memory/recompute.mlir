// RUN: qwen-opt %s -qwen-inline-calls -qwen-recompute=policy=none | FileCheck %s --check-prefix=NONE
// RUN: qwen-opt %s -qwen-inline-calls -qwen-recompute=policy=cheap | FileCheck %s --check-prefix=CHEAP
// RUN: qwen-opt %s -qwen-inline-calls -qwen-recompute=policy=full | FileCheck %s --check-prefix=FULL

qwen.parameter @w : tensor<8x8xf32> {init = "normal"}

// a = g1(x); b = a w^T; c = g2(b); y = g3(c). The backward reads a, b and c.
func.func private @l_forward(%x: memref<4x8xf32>, %w: memref<8x8xf32>, %y: memref<4x8xf32>,
                             %a: memref<4x8xf32>, %b: memref<4x8xf32>, %c: memref<4x8xf32>) {
  kernel.group @g1 ins(%x : memref<4x8xf32>) outs(%a : memref<4x8xf32>) {rows = 4 : i64, rows_per_block = 4 : i64, flops_per_row = 8 : i64}
  kernel.gemm ins(%a, %w : memref<4x8xf32>, memref<8x8xf32>) outs(%b : memref<4x8xf32>) {transpose_b = true}
  kernel.group @g2 ins(%b : memref<4x8xf32>) outs(%c : memref<4x8xf32>) {rows = 4 : i64, rows_per_block = 4 : i64, flops_per_row = 8 : i64}
  kernel.group @g3 ins(%c : memref<4x8xf32>) outs(%y : memref<4x8xf32>) {rows = 4 : i64, rows_per_block = 4 : i64, flops_per_row = 8 : i64}
  return
}

func.func private @l_backward(%a: memref<4x8xf32>, %b: memref<4x8xf32>, %c: memref<4x8xf32>,
                              %dy: memref<4x8xf32>, %dx: memref<4x8xf32>, %dw: memref<8x8xf32>) {
  %t = memref.alloc() : memref<4x8xf32>
  %half = kernel.view %c[16] : memref<4x8xf32> to memref<2x8xf32>
  %copy = memref.alloc() : memref<2x8xf32>
  kernel.copy ins(%half : memref<2x8xf32>) outs(%copy : memref<2x8xf32>)
  kernel.group @g4 ins(%c, %b, %dy : memref<4x8xf32>, memref<4x8xf32>, memref<4x8xf32>) outs(%t : memref<4x8xf32>) {rows = 4 : i64, rows_per_block = 4 : i64, flops_per_row = 8 : i64}
  kernel.gemm ins(%t, %a : memref<4x8xf32>, memref<4x8xf32>) outs(%dw : memref<8x8xf32>) {transpose_a = true, accumulate = true}
  kernel.copy ins(%t : memref<4x8xf32>) outs(%dx : memref<4x8xf32>)
  return
}

// NONE-LABEL: func.func @micro_step
// NONE-COUNT-2: kernel.group @g1
// NONE-NOT:     kernel.group @g1
// NONE:         kernel.group @g4

// The value between the layers, %y1, and the input stay; @g3 never runs again.
// Held: b (a GEMM result). Again: c from b, a from x.
// CHEAP-LABEL: func.func @micro_step
// CHEAP:         kernel.gemm ins(%{{.*}}, %{{.*}} : memref<4x8xf32>, memref<8x8xf32>) outs(%[[B1:[^ ]*]]
// CHEAP-SAME:      qwen.call = 0
// CHEAP:         kernel.group @g3
// CHEAP:         kernel.group @g3
// CHEAP-SAME:      qwen.call = 1
// CHEAP:         kernel.group @g2 ins(%{{[^ ]*}} : memref<4x8xf32>) outs(%[[C:[^ ]*]]
// CHEAP-SAME:      qwen.call = 2 : i64, qwen.callee = "l_backward", qwen.label = "l_backward recomputed"
// CHEAP:         %[[HALF:.*]] = kernel.view %[[C]][16]
// CHEAP:         kernel.copy ins(%[[HALF]]
// CHEAP:         kernel.group @g4 ins(%[[C]],
// CHEAP:         kernel.group @g1 ins(%{{[^ ]*}} : memref<4x8xf32>) outs(%[[A:[^ ]*]]
// CHEAP:         kernel.gemm ins(%{{.*}}, %[[A]] :
// CHEAP:         kernel.group @g2 ins(%[[B1]] :
// CHEAP-SAME:      qwen.call = 3
// CHEAP-NOT:     kernel.group @g3
// CHEAP:         return

// A layer holds its input only: the GEMM runs again too.
// FULL-LABEL: func.func @micro_step
// FULL:         kernel.group @g3
// FULL:         kernel.group @g3
// FULL:         kernel.group @g1 ins(%{{[^ ]*}} : memref<4x8xf32>) outs(%[[A:[^ ]*]]
// FULL:         kernel.gemm ins(%[[A]], %{{.*}}) outs(%[[B:[^ ]*]]
// FULL:         kernel.group @g2 ins(%[[B]] : memref<4x8xf32>) outs(%[[C:[^ ]*]]
// FULL:         kernel.group @g4 ins(%[[C]], %[[B]],
// FULL-NOT:     kernel.group @g1
// FULL:         kernel.gemm ins(%{{.*}}, %[[A]] :
// FULL-NOT:     kernel.group @g3
// FULL:         return
func.func @micro_step(%x: memref<4x8xf32> {qwen.input = "x"}, %out: memref<4x8xf32> {qwen.output = "out"}) attributes {qwen.program} {
  %w = kernel.storage parameter [@w] : memref<8x8xf32>
  %dw = kernel.storage gradient [@w] : memref<8x8xf32>
  %y1 = memref.alloc() : memref<4x8xf32>
  %a1 = memref.alloc() : memref<4x8xf32>
  %b1 = memref.alloc() : memref<4x8xf32>
  %c1 = memref.alloc() : memref<4x8xf32>
  func.call @l_forward(%x, %w, %y1, %a1, %b1, %c1) : (memref<4x8xf32>, memref<8x8xf32>, memref<4x8xf32>, memref<4x8xf32>, memref<4x8xf32>, memref<4x8xf32>) -> ()
  %y2 = memref.alloc() : memref<4x8xf32>
  %a2 = memref.alloc() : memref<4x8xf32>
  %b2 = memref.alloc() : memref<4x8xf32>
  %c2 = memref.alloc() : memref<4x8xf32>
  func.call @l_forward(%y1, %w, %y2, %a2, %b2, %c2) : (memref<4x8xf32>, memref<8x8xf32>, memref<4x8xf32>, memref<4x8xf32>, memref<4x8xf32>, memref<4x8xf32>) -> ()
  %dy1 = memref.alloc() : memref<4x8xf32>
  func.call @l_backward(%a2, %b2, %c2, %y2, %dy1, %dw) : (memref<4x8xf32>, memref<4x8xf32>, memref<4x8xf32>, memref<4x8xf32>, memref<4x8xf32>, memref<8x8xf32>) -> ()
  func.call @l_backward(%a1, %b1, %c1, %dy1, %out, %dw) : (memref<4x8xf32>, memref<4x8xf32>, memref<4x8xf32>, memref<4x8xf32>, memref<4x8xf32>, memref<8x8xf32>) -> ()
  return
}
