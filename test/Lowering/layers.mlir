// Whole models lower without a copy, in every dtype, fused or not; a stage
// leaves kernel calls only.
// RUN: qwen-import %models/configs/tiny.json --dtype=bf16 --logits --tokens 128 --max-documents 4 -o %t.bf16.mlir
// RUN: qwen-opt %t.bf16.mlir -qwen-merge-projections -qwen-autodiff -qwen-first-micro-step -qwen-optimizer -qwen-fuse-loss -qwen-decompose \
// RUN:     -qwen-normalize-shapes -cse -o %t.parts.mlir
// RUN: qwen-opt %t.parts.mlir -qwen-fuse-groups -verify-fusion -qwen-lower-to-kernels -verify-lowering -o %t.fused.mlir
// RUN: FileCheck %s --input-file=%t.fused.mlir --check-prefixes=CHECK,FUSED
// RUN: qwen-opt %t.parts.mlir -qwen-fuse-groups=fuse=false -verify-fusion -qwen-lower-to-kernels -verify-lowering \
// RUN:   | FileCheck %s
// RUN: qwen-import %models/configs/tiny-untied-1to3.json --dtype=f64 --tokens 128 --max-documents 4 -o %t.f64.mlir
// RUN: qwen-opt %t.f64.mlir -qwen-merge-projections -qwen-autodiff -qwen-first-micro-step -qwen-optimizer -qwen-fuse-loss -qwen-decompose \
// RUN:     -qwen-normalize-shapes -cse -qwen-fuse-groups -verify-fusion -qwen-lower-to-kernels -verify-lowering \
// RUN:   | FileCheck %s --check-prefix=F64

// CHECK-NOT: kernel.copy
// Every weight gradient of a layer is written by the kernel that makes it.
// CHECK: func.func private @gdn_layer_backward
// FUSED-SAME: memref<784x256xf32> {qwen.accumulate}
// CHECK-NOT: kernel.copy
// The slices of the merged projection's gradient are written where they belong.
// FUSED: %[[D:.*]] = memref.alloc() {qwen.name = "concat"} : memref<128x784xbf16>
// FUSED: kernel.gated_delta_grad
// FUSED: kernel.causal_conv1d_grad {{.*}} {accumulate = true}
// FUSED: kernel.gemm ins(%[[D]]
// CHECK: func.func @micro_step
// CHECK-NOT: kernel.copy
// CHECK-NOT: kernel.linear_cross_entropy ins
// CHECK: kernel.linear_cross_entropy_grad {{.*}} {accumulate = true
// CHECK: kernel.embedding_grad {{.*}} {accumulate = true}
// CHECK-NOT: kernel.copy

// F64-NOT: f32
// F64: func.func @micro_step
// F64-NOT: f32
