// RUN: qwen-opt %s -qwen-inline-calls | FileCheck %s

qwen.parameter @"model.layers.3.mlp.weight" : tensor<6x8xf32> {init = "normal"}
qwen.parameter @"model.layers.3.norm.weight" : tensor<6xf32> {init = "one"}

func.func private @inner(%x: memref<4x6xf32>, %y: memref<4x6xf32>) {
  kernel.copy ins(%x : memref<4x6xf32>) outs(%y : memref<4x6xf32>)
  return
}

func.func private @layer(%x: memref<4x8xf32>, %w: memref<6x8xf32>,
                         %n: memref<6xf32>, %y: memref<4x6xf32>) {
  %h = memref.alloc() : memref<4x6xf32>
  kernel.gemm ins(%x, %w : memref<4x8xf32>, memref<6x8xf32>)
    outs(%h : memref<4x6xf32>) {transpose_b = true}
  func.call @inner(%h, %y) : (memref<4x6xf32>, memref<4x6xf32>) -> ()
  return
}

// A copy goes by the name of the original.
func.func private @inner_0(%y: memref<4x6xf32>) attributes {qwen.specializes = "inner"} {
  kernel.fill outs(%y : memref<4x6xf32>) {value = 1.0 : f64}
  return
}

// Two calls: each gets its own memory, number and label; the launch of the
// nested call belongs to the outer one.
// CHECK-NOT: func.func private
// CHECK-LABEL: func.func @eval
// CHECK:         %[[H0:.*]] = memref.alloc() : memref<4x6xf32>
// CHECK:         kernel.gemm ins(%{{.*}}, %{{.*}}) outs(%[[H0]]
// CHECK-SAME:      qwen.call = 0 : i64, qwen.callee = "layer", qwen.label = "model.layers.3 layer"
// CHECK:         kernel.copy ins(%[[H0]]
// CHECK-SAME:      qwen.call = 0 : i64, qwen.callee = "layer", qwen.label = "model.layers.3 layer"
// CHECK:         %[[H1:.*]] = memref.alloc() : memref<4x6xf32>
// CHECK:         kernel.gemm ins(%{{.*}}, %{{.*}}) outs(%[[H1]]
// CHECK-SAME:      qwen.call = 1 : i64
// CHECK-NOT:     call @
// CHECK:         kernel.fill outs(%{{.*}}) {qwen.call = 2 : i64, qwen.callee = "inner", qwen.label = "inner", value = 1.000000e+00 : f64}
// A launch of the program itself has no call.
// CHECK:         kernel.fill outs(%{{.*}}) {value = 0.000000e+00 : f64}
// CHECK-NOT: func.func private
func.func @eval(%x: memref<4x8xf32> {qwen.input = "x"},
                %y: memref<4x6xf32> {qwen.output = "y"},
                %z: memref<4x6xf32> {qwen.output = "z"}) attributes {qwen.program} {
  %w = kernel.storage parameter [@"model.layers.3.mlp.weight"] : memref<6x8xf32>
  %n = kernel.storage parameter [@"model.layers.3.norm.weight"] : memref<6xf32>
  func.call @layer(%x, %w, %n, %y) : (memref<4x8xf32>, memref<6x8xf32>, memref<6xf32>, memref<4x6xf32>) -> ()
  func.call @layer(%x, %w, %n, %z) : (memref<4x8xf32>, memref<6x8xf32>, memref<6xf32>, memref<4x6xf32>) -> ()
  func.call @inner_0(%z) : (memref<4x6xf32>) -> ()
  kernel.fill outs(%z : memref<4x6xf32>) {value = 0.0 : f64}
  return
}
