// RUN: qwen-opt %s -qwen-choose-algorithms=file=%S/Inputs/tuning.txt | FileCheck %s

// CHECK-LABEL: @products
func.func @products(%x: memref<64x32xbf16>, %w: memref<48x32xbf16>, %y: memref<64x48xbf16>, %dw: memref<48x32xf32>) {
  // CHECK: kernel.gemm {{.*}} {algorithm = array<i64: 66, 394, 36, 1, 0, 0, 0, 0, 3>, transpose_b = true}
  kernel.gemm ins(%x, %w : memref<64x32xbf16>, memref<48x32xbf16>) outs(%y : memref<64x48xbf16>) {transpose_b = true}
  // An addend makes another product of it, which the table does not have.
  // CHECK: kernel.gemm {{.*}} addend
  // CHECK-NOT: algorithm
  // CHECK-SAME: transpose_b = true
  kernel.gemm ins(%x, %w : memref<64x32xbf16>, memref<48x32xbf16>) addend(%y : memref<64x48xbf16>) outs(%y : memref<64x48xbf16>) {transpose_b = true}
  // CHECK: kernel.gemm {{.*}} {accumulate = true, algorithm = array<i64: 66, 1, 2, 3, 4, 5, 6, 7, 8>, transpose_a = true}
  kernel.gemm ins(%y, %x : memref<64x48xbf16>, memref<64x32xbf16>) outs(%dw : memref<48x32xf32>) {transpose_a = true, accumulate = true}
  // One that overwrites a gradient has the algorithm of those that add to it.
  // CHECK: kernel.gemm {{.*}} {algorithm = array<i64: 66, 1, 2, 3, 4, 5, 6, 7, 8>, transpose_a = true}
  kernel.gemm ins(%y, %x : memref<64x48xbf16>, memref<64x32xbf16>) outs(%dw : memref<48x32xf32>) {transpose_a = true}
  return
}

// CHECK-LABEL: @loss
func.func @loss(%x: memref<64x32xbf16>, %w: memref<96x32xbf16>, %labels: memref<64xi32>, %dnll: memref<64xf32>, %nll: memref<64xf32>, %dx: memref<64x32xbf16>, %dw: memref<96x32xf32>) {
  // CHECK: kernel.linear_cross_entropy {{.*}} {logits_algorithm = array<i64: 67, 1, 2, 1, 0, 0, 0, 0, 3>}
  kernel.linear_cross_entropy ins(%x, %w, %labels : memref<64x32xbf16>, memref<96x32xbf16>, memref<64xi32>) outs(%nll : memref<64xf32>)
  // The library's first choice stays unnamed.
  // CHECK: kernel.linear_cross_entropy_grad {{.*}} {dweight_algorithm = array<i64: 68, 1, 2, 1, 0, 0, 0, 0, 3>, logits_algorithm = array<i64: 67, 1, 2, 1, 0, 0, 0, 0, 3>}
  kernel.linear_cross_entropy_grad ins(%x, %w, %labels, %dnll : memref<64x32xbf16>, memref<96x32xbf16>, memref<64xi32>, memref<64xf32>) outs(%nll, %dx, %dw : memref<64xf32>, memref<64x32xbf16>, memref<96x32xf32>)
  return
}
