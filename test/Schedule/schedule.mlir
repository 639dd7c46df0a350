// RUN: qwen-opt %s -qwen-schedule -verify-schedule | FileCheck %s

module attributes {
  qwen.tokens = 4 : i64, qwen.max_documents = 2 : i64,
  qwen.model = {name = "tiny", vocab_size = 16 : i64, flops = {linear = [6.0e3, 0.0]}},
  qwen.memory = {parameter = 320 : i64, gradient = 320 : i64, input = 128 : i64, output = 128 : i64, activation = 256 : i64, workspace = 64 : i64, moment1 = 0 : i64}
} {

// CHECK:      plan.header target "x86-64-v3" tokens 4 max_documents 2 vocab_size 16
// CHECK-SAME:   {flops = {linear = [6.000000e+03, 0.000000e+00]}, model = {name = "tiny", vocab_size = 16 : i64}}
// A class without bytes has no arena.
// CHECK:      plan.arena @parameter parameter size 320
// CHECK-NEXT: plan.arena @gradient gradient size 320
// CHECK-NEXT: plan.arena @input input size 128
// CHECK-NEXT: plan.arena @output output size 128
// CHECK-NEXT: plan.arena @activation activation size 256
// CHECK-NEXT: plan.arena @workspace workspace size 64
// CHECK-NEXT: %[[SCRATCH:.*]] = plan.buffer @workspace[0, 64]
// CHECK-NEXT: plan.workspace %[[SCRATCH]]

// One buffer a stack; two slots: %a and %b one after the other.
// CHECK-DAG: %[[UV:.*]] = plan.buffer @parameter[0, 256]
// CHECK-DAG: %[[W:.*]] = plan.buffer @parameter[256, 32]
// CHECK-DAG: %[[DUV:.*]] = plan.buffer @gradient[0, 256]
// CHECK-DAG: %[[X:.*]] = plan.buffer @input[0, 128]
// CHECK-DAG: %[[Y:.*]] = plan.buffer @output[0, 128]
// CHECK-DAG: %[[S0:.*]] = plan.buffer @activation[0, 128] in @eval steps 0 to 2
// CHECK-DAG: %[[S1:.*]] = plan.buffer @activation[128, 128] in @eval steps 2 to 3

// CHECK:      %[[VU:.*]] = plan.view %[[UV]][0] : memref<4x8xf32>
// CHECK-NEXT: %[[DU:.*]] = plan.view %[[DUV]][0] : memref<4x8xf32>
// CHECK-NEXT: plan.parameter "u" stack 0[0] init "normal" value(%[[VU]] : memref<4x8xf32>) gradient(%[[DU]] : memref<4x8xf32>) {std = 2.000000e-02 : f64}
// CHECK-NEXT: %[[VV:.*]] = plan.view %[[UV]][128] : memref<4x8xf32>
// CHECK:      plan.parameter "v" stack 0[1] init "normal" value(%[[VV]] : memref<4x8xf32>) gradient(
// CHECK-NEXT: %[[VW:.*]] = plan.view %[[W]][0] : memref<8xf32>
// CHECK-NEXT: plan.parameter "w" stack 1[0] init "one" value(%[[VW]] : memref<8xf32>) {decay = false}
qwen.parameter @u : tensor<4x8xf32> {init = "normal", std = 0.02 : f64, qwen.place = {parameter = 0 : i64, gradient = 0 : i64, gradient_type = f32, stack = 0 : i64, stack_index = 0 : i64}}
qwen.parameter @v : tensor<4x8xf32> {init = "normal", qwen.place = {parameter = 128 : i64, gradient = 128 : i64, gradient_type = f32, stack = 0 : i64, stack_index = 1 : i64}}
qwen.parameter @w : tensor<8xf32> {init = "one", decay = false, qwen.place = {parameter = 256 : i64, stack = 1 : i64, stack_index = 0 : i64}}

kernel.binary @code {target = "x86-64-v3", object = ""}

// The order of the launches stays; a view of a view adds its offsets; labels
// stay, the numbers of calls go.
// CHECK:      plan.program @eval inputs(["x"] %{{.*}} : memref<4x8xf32>) outputs(["y"] %[[VY:.*]] : memref<4x8xf32>) {
// CHECK-NEXT:   kernel.copy ins(%{{.*}} : memref<4x8xf32>) outs(%[[A:.*]] : memref<4x8xf32>) {qwen.label = "model.layers.0 layer"}
// CHECK-NEXT:   kernel.fill outs(%[[ROW:.*]] : memref<8xf32>)
// CHECK-NEXT:   kernel.copy ins(%[[A]] : memref<4x8xf32>) outs(%[[C:.*]] : memref<4x8xf32>)
// CHECK-NEXT:   kernel.copy ins(%[[C]] : memref<4x8xf32>) outs(%[[VY]] : memref<4x8xf32>)
// CHECK-NEXT:   kernel.copy
// CHECK-NEXT: }
func.func @eval(%x: memref<4x8xf32> {qwen.input = "x", qwen.offset = 0 : i64}, %y: memref<4x8xf32> {qwen.output = "y", qwen.offset = 0 : i64}) attributes {qwen.program} {
  %uv = kernel.storage parameter [@u, @v] : memref<8x8xf32>
  %duv = kernel.storage gradient [@u, @v] : memref<8x8xf32>
  %a = memref.alloc() {qwen.offset = 0 : i64, qwen.slot = 0 : i64} : memref<4x8xf32>
  %b = memref.alloc() {qwen.offset = 0 : i64, qwen.slot = 0 : i64} : memref<4x8xf32>
  %c = memref.alloc() {qwen.offset = 128 : i64, qwen.slot = 1 : i64} : memref<4x8xf32>
  %half = kernel.view %b[8] : memref<4x8xf32> to memref<2x8xf32>
  %row = kernel.view %half[8] : memref<2x8xf32> to memref<8xf32>
  kernel.copy ins(%x : memref<4x8xf32>) outs(%a : memref<4x8xf32>) {qwen.call = 0 : i64, qwen.callee = "layer", qwen.label = "model.layers.0 layer"}
  kernel.fill outs(%row : memref<8xf32>) {value = 1.0 : f64}
  kernel.copy ins(%b : memref<4x8xf32>) outs(%c : memref<4x8xf32>)
  kernel.copy ins(%c : memref<4x8xf32>) outs(%y : memref<4x8xf32>)
  kernel.copy ins(%uv : memref<8x8xf32>) outs(%duv : memref<8x8xf32>)
  return
}
// CHECK-NOT: func.func
// CHECK-NOT: qwen.parameter
}
