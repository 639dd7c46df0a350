// RUN: qwen-opt %s -qwen-inline-calls -qwen-assign-offsets -verify-memory -qwen-schedule -verify-schedule "-qwen-emit-plan=output=%t.fb compiler-version=1.2.3 compiler-flags=--recompute=none" -o %t.mlir
// RUN: qwen-plan %t.fb | FileCheck %s
// RUN: qwen-plan %t.fb --summary --json | FileCheck %s --check-prefix=JSON
// RUN: qwen-plan %t.fb --program micro_step | FileCheck %s --check-prefix=PROGRAM
// RUN: not qwen-plan %t.fb --memory --program micro_step 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: not qwen-plan %t.fb --program absent 2>&1 | FileCheck %s --check-prefix=ABSENT
// RUN: not qwen-plan %t.absent.fb 2>&1 | FileCheck %s --check-prefix=NOFILE
// RUN: head -c 300 %t.fb > %t.cut.fb
// RUN: not qwen-plan %t.cut.fb 2>&1 | FileCheck %s --check-prefix=CUT
// The plan dialect as text is the whole truth: written again, it gives the
// same bytes.
// RUN: qwen-opt %t.mlir "-qwen-emit-plan=output=%t.again.fb compiler-version=1.2.3 compiler-flags=--recompute=none" -o %t.again.mlir
// RUN: cmp %t.fb %t.again.fb

// CHECK:      target         x86-64
// CHECK-NEXT: compiler       qwenc 1.2.3
// CHECK-NEXT: flags          --recompute=none
// CHECK:      micro-batch    4 tokens, at most 2 documents
// CHECK:      name           tiny
// CHECK:      parameters     2 tensors, 144 elements
// CHECK:      parameters 576
// CHECK:      gradients 576
// CHECK:      optimizer 1152
// CHECK:      activations 256
// CHECK:      attention      0 + 12 for each token before it in its document
// CHECK:      linear         6000
// CHECK:      program micro_step: 3 launches
// CHECK:      gemm 2 1.152 KFLOP
// CHECK:      program update: 2 launches
// CHECK:      adamw

// JSON-DAG: "target": "x86-64"
// JSON-DAG: "elements": 144
// JSON-DAG: "activations": 256
// JSON-DAG: "total": {{[0-9]+}}
// JSON-DAG: "per_token_context": 12.0
// JSON-DAG: "flops": 1152

// PROGRAM:      program micro_step
// PROGRAM-NEXT:   0 gemm (model.layers.0 layer), 1.024 KFLOP
// PROGRAM-NEXT:     r   a          view {{[0-9]+}} {{ *}}f32[4, 8]
// PROGRAM-NEXT:     r   b          view {{[0-9]+}} {{ *}}f32[16, 8]
// PROGRAM-NEXT:     w   c          view {{[0-9]+}} {{ *}}f32[4, 16]
// PROGRAM-NEXT:   1 copy (model.layers.0 layer), 0 FLOP, 512 B
// PROGRAM:        2 gemm, 128 FLOP
// PROGRAM:          rw  c
// PROGRAM-NOT:  adamw

// BOTH: qwen-plan: error: --summary, --memory, --program and --scale exclude each other
// ABSENT: qwen-plan: error: the plan has no program 'absent'
// CUT: qwen-plan: error: plan '{{.*}}cut.fb': the plan is cut: its end mark is missing
// NOFILE: qwen-plan: error: {{.*}}absent.fb
module attributes {qwen.tokens = 4 : i64, qwen.max_documents = 2 : i64,
  qwen.model = {name = "tiny", vocab_size = 16 : i64, flops = {attention = [0.0, 12.0], linear = [6.0e3, 0.0]}}} {
qwen.parameter @"model.layers.0.w" : tensor<16x8xf32> {init = "normal", std = 0.02 : f64}
qwen.parameter @"model.layers.0.v" : tensor<2x8xf32> {init = "zero", decay = false}

func.func private @layer(%x: memref<4x8xf32>, %w: memref<16x8xf32>, %y: memref<4x16xf32>) {
  %h = memref.alloc() : memref<4x16xf32>
  kernel.gemm ins(%x, %w : memref<4x8xf32>, memref<16x8xf32>) outs(%h : memref<4x16xf32>) {transpose_b = true}
  kernel.copy ins(%h : memref<4x16xf32>) outs(%y : memref<4x16xf32>)
  return
}

func.func @micro_step(%x: memref<4x8xf32> {qwen.input = "x"}, %y: memref<4x16xf32> {qwen.output = "y"}) attributes {qwen.program} {
  %w = kernel.storage parameter [@"model.layers.0.w"] : memref<16x8xf32>
  %dv = kernel.storage gradient [@"model.layers.0.v"] : memref<2x8xf32>
  func.call @layer(%x, %w, %y) : (memref<4x8xf32>, memref<16x8xf32>, memref<4x16xf32>) -> ()
  %left = kernel.view %y[0] : memref<4x16xf32> to memref<4x2xf32, strided<[16, 1]>>
  kernel.gemm ins(%left, %x : memref<4x2xf32, strided<[16, 1]>>, memref<4x8xf32>) outs(%dv : memref<2x8xf32>) {transpose_a = true, accumulate = true}
  return
}

func.func @update(%hyper: memref<8xf32> {qwen.input = "hyper"}, %rng: memref<2xi32> {qwen.input = "rng"}, %stats: memref<4xf32> {qwen.output = "stats"}) attributes {qwen.program} {
  %w = kernel.storage parameter [@"model.layers.0.w"] : memref<16x8xf32>
  %dw = kernel.storage gradient [@"model.layers.0.w"] : memref<16x8xf32>
  %mw = kernel.storage moment1 [@"model.layers.0.w"] : memref<16x8xf32>
  %vw = kernel.storage moment2 [@"model.layers.0.w"] : memref<16x8xf32>
  %v = kernel.storage parameter [@"model.layers.0.v"] : memref<2x8xf32>
  %dv = kernel.storage gradient [@"model.layers.0.v"] : memref<2x8xf32>
  %mv = kernel.storage moment1 [@"model.layers.0.v"] : memref<2x8xf32>
  %vv = kernel.storage moment2 [@"model.layers.0.v"] : memref<2x8xf32>
  kernel.grad_norm grads(%dw, %dv : memref<16x8xf32>, memref<2x8xf32>) ins(%hyper : memref<8xf32>) outs(%stats : memref<4xf32>)
  kernel.adamw params(%w, %v : memref<16x8xf32>, memref<2x8xf32>) grads(%dw, %dv : memref<16x8xf32>, memref<2x8xf32>)
    moments1(%mw, %mv : memref<16x8xf32>, memref<2x8xf32>) moments2(%vw, %vv : memref<16x8xf32>, memref<2x8xf32>) masters()
    ins(%hyper, %stats, %rng : memref<8xf32>, memref<4xf32>, memref<2xi32>) {tensor_ids = array<i64: 0, 1>, decay = true}
  return
}
}
