// RUN: qwen-opt %s -qwen-assign-offsets -verify-memory | FileCheck %s
// RUN: qwen-opt %s -qwen-assign-offsets=reuse=false -verify-memory | FileCheck %s --check-prefix=APART

// Sizes by class. %a and %b share 128 bytes in place, %c takes the place of
// nothing that lives, so that the arena has 128 + 128.
// CHECK: module attributes {qwen.memory = {activation = 256 : i64, gradient = 1024 : i64, input = 128 : i64,
// CHECK-SAME: output = 256 : i64, parameter = 1088 : i64
// APART: module attributes {qwen.memory = {activation = 384 : i64

// @u and @v are one stack: without a gap, where @u stands. @w after them on a
// new line of 64 bytes.
// CHECK: qwen.parameter @u : {{.*}}qwen.place = {gradient = 0 : i64, gradient_type = f32, parameter = 0 : i64, stack = 0 : i64, stack_index = 0 : i64}
qwen.parameter @u : tensor<9x8xf32> {init = "normal"}
// CHECK: qwen.parameter @w : {{.*}}qwen.place = {parameter = 1024 : i64, stack = 1 : i64, stack_index = 0 : i64}
qwen.parameter @w : tensor<8xbf16> {init = "one"}
// CHECK: qwen.parameter @v : {{.*}}qwen.place = {gradient = 288 : i64, gradient_type = f32, parameter = 288 : i64, stack = 0 : i64, stack_index = 1 : i64}
qwen.parameter @v : tensor<23x8xf32> {init = "normal"}

// CHECK-LABEL: func.func @eval
// CHECK-SAME:    %{{.*}}: memref<4x8xf32> {qwen.input = "x", qwen.offset = 0 : i64}
// CHECK-SAME:    %{{.*}}: memref<4x8xf32> {qwen.offset = 0 : i64, qwen.output = "y"}
// CHECK:         memref.alloc() {qwen.offset = [[A:[0-9]+]] : i64, qwen.slot = 0 : i64} : memref<4x8xf32>
// CHECK:         memref.alloc() {qwen.offset = [[A]] : i64, qwen.slot = 0 : i64} : memref<4x8xf32>
// CHECK:         memref.alloc() {qwen.offset = {{[0-9]+}} : i64, qwen.slot = 1 : i64} : memref<4x8xf32>
// An allocation without a launch is gone, with its views.
// CHECK-NOT:     memref.alloc
// CHECK-NOT:     kernel.view
// APART:         memref.alloc() {qwen.offset = 0 : i64, qwen.slot = 0 : i64}
// APART:         memref.alloc() {qwen.offset = 128 : i64, qwen.slot = 1 : i64}
// APART:         memref.alloc() {qwen.offset = 256 : i64, qwen.slot = 2 : i64}
func.func @eval(%x: memref<4x8xf32> {qwen.input = "x"}, %y: memref<4x8xf32> {qwen.output = "y"}) attributes {qwen.program} {
  %a = memref.alloc() : memref<4x8xf32>
  %b = memref.alloc() : memref<4x8xf32>
  %c = memref.alloc() : memref<4x8xf32>
  %unused = memref.alloc() : memref<4x8xf32>
  %view = kernel.view %unused[8] : memref<4x8xf32> to memref<2x8xf32>
  kernel.copy ins(%x : memref<4x8xf32>) outs(%a : memref<4x8xf32>)
  kernel.group @g ins(%a : memref<4x8xf32>) outs(%b : memref<4x8xf32>) {rows = 4 : i64, rows_per_block = 4 : i64, flops_per_row = 8 : i64}
  kernel.copy ins(%b : memref<4x8xf32>) outs(%c : memref<4x8xf32>)
  kernel.copy ins(%c : memref<4x8xf32>) outs(%y : memref<4x8xf32>)
  return
}

// The same input is the same memory; each program has outputs of its own.
// CHECK-LABEL: func.func @micro_step
// CHECK-SAME:    %{{.*}}: memref<4x8xf32> {qwen.input = "x", qwen.offset = 0 : i64}
// CHECK-SAME:    %{{.*}}: memref<4x8xf32> {qwen.offset = 128 : i64, qwen.output = "y"}
func.func @micro_step(%x: memref<4x8xf32> {qwen.input = "x"}, %y: memref<4x8xf32> {qwen.output = "y"}) attributes {qwen.program} {
  %uv = kernel.storage parameter [@u, @v] : memref<32x8xf32>
  %duv = kernel.storage gradient [@u, @v] : memref<32x8xf32>
  %one = kernel.storage parameter [@v] : memref<23x8xf32>
  %first = kernel.view %one[0] : memref<23x8xf32> to memref<4x8xf32>
  kernel.copy ins(%first : memref<4x8xf32>) outs(%y : memref<4x8xf32>)
  kernel.copy ins(%uv : memref<32x8xf32>) outs(%duv : memref<32x8xf32>)
  return
}
