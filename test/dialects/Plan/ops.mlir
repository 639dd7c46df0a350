// RUN: qwen-opt %s | qwen-opt | FileCheck %s
// RUN: qwen-opt %s -emit-bytecode | qwen-opt | FileCheck %s

// CHECK: plan.header target "x86-64" tokens 4 max_documents 1 vocab_size 8
plan.header target "x86-64" tokens 4 max_documents 1 vocab_size 8
// CHECK: plan.arena @parameter parameter size 64
plan.arena @parameter parameter size 64
// CHECK: plan.arena @activation activation size 128
plan.arena @activation activation size 128
// CHECK: plan.arena @output output size 64
plan.arena @output output size 64
plan.arena @workspace workspace size 64
// CHECK: %[[B:.*]] = plan.buffer @activation[64, 32] in @eval steps 0 to 1
%0 = plan.buffer @activation[64, 32] in @eval steps 0 to 1
// CHECK: plan.buffer @parameter[0, 32]
%1 = plan.buffer @parameter[0, 32]
%2 = plan.buffer @output[0, 32]
%3 = plan.buffer @workspace[0, 64]
// CHECK: plan.workspace %
plan.workspace %3
// CHECK: plan.view %[[B]][16] : memref<4xf32>
%4 = plan.view %0[16] : memref<4xf32>
// CHECK: plan.view %[[B]][0] : memref<4xf32, strided<[2]>>
%5 = plan.view %0[0] : memref<4xf32, strided<[2]>>
%6 = plan.view %1[0] : memref<8xf32>
%7 = plan.view %2[0] : memref<4xf32>
// CHECK: plan.parameter "w" stack 0[0] init "zero" value(%{{.*}} : memref<8xf32>) {decay = false}
plan.parameter "w" stack 0[0] init "zero" value(%6 : memref<8xf32>) {decay = false}
// CHECK: plan.program @eval inputs([]) outputs(["y"] %{{.*}} : memref<4xf32>) {
plan.program @eval inputs([]) outputs(["y"] %7 : memref<4xf32>) {
  // CHECK-NEXT: kernel.fill outs(%{{.*}} : memref<4xf32>) {value = 1.000000e+00 : f64}
  kernel.fill outs(%4 : memref<4xf32>) {value = 1.0 : f64}
  kernel.copy ins(%4 : memref<4xf32>) outs(%7 : memref<4xf32>)
}
// CHECK: plan.bucket "l.f32" elements 16 value(%{{.*}} : memref<8xf32>)
plan.bucket "l.f32" elements 16 value(%6 : memref<8xf32>)
// CHECK: plan.parameter "v" stack 1[0] init "zero" in "l.f32"[8] of tensor<2x4xf32>
plan.parameter "v" stack 1[0] init "zero" in "l.f32"[8] of tensor<2x4xf32>
