// RUN: qwen-opt %s -split-input-file -qwen-lower-groups | FileCheck %s

// One sweep: 32 columns are two vectors, 3 are left over as a short one.
// CHECK-LABEL: module @qwen_groups
// CHECK: func.func @double(%[[OPS:.*]]: !llvm.ptr, %{{.*}}: !llvm.ptr, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64)
// CHECK: scf.for %{{.*}} = %[[BEGIN]] to %[[END]]
// CHECK: scf.for
// CHECK: llvm.load {{.*}} -> vector<16xf32>
// CHECK: arith.addf {{.*}} : vector<16xf32>
// CHECK: llvm.store {{.*}} : vector<16xf32>
// CHECK: }
// CHECK: llvm.load {{.*}} -> vector<3xf32>
// CHECK: arith.addf {{.*}} : vector<3xf32>
// CHECK: llvm.store {{.*}} : vector<3xf32>
// CHECK-NOT: kernel.group_function
kernel.group_function @double attributes {domain = array<i64: 8, 35>, rows_per_block = 8 : i64,
    input_types = [memref<8x35xf32>], output_types = [memref<8x35xf32>], column_sums = array<i64>} {
^bb0(%x: tensor<8x35xf32>):
  %y = arith.addf %x, %x : tensor<8x35xf32>
  qwen.yield %y : tensor<8x35xf32>
}

// -----

// A row sum ends a sweep; the row is read again in the second one, where the
// result is stored.
// CHECK-LABEL: func.func @normalize
// CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} : i64
// CHECK: scf.for {{.*}} iter_args
// CHECK: arith.mulf
// CHECK-NOT: llvm.store
// CHECK: scf.yield
// CHECK: vector.extract
// CHECK: scf.for
// CHECK: arith.divf {{.*}} : vector<16xf32>
// CHECK: llvm.store
kernel.group_function @normalize attributes {domain = array<i64: 8, 32>, rows_per_block = 8 : i64,
    input_types = [memref<8x32xf32>], output_types = [memref<8x32xf32>], column_sums = array<i64>} {
^bb0(%x: tensor<8x32xf32>):
  %q = arith.mulf %x, %x : tensor<8x32xf32>
  %s = qwen.reduce_sum %q dims = [1] : tensor<8x32xf32> -> tensor<8xf32>
  %b = qwen.broadcast %s dims = [0] : tensor<8xf32> -> tensor<8x32xf32>
  %y = arith.divf %x, %b : tensor<8x32xf32>
  qwen.yield %y : tensor<8x32xf32>
}

// -----

// bf16 is widened by a shift and rounded to nearest even by integer arithmetic.
// CHECK-LABEL: func.func @round
// CHECK: llvm.load {{.*}} -> vector<16xi16>
// CHECK: arith.extui
// CHECK: arith.shli
// CHECK: arith.bitcast {{.*}} to vector<16xf32>
// CHECK: arith.mulf {{.*}} : vector<16xf32>
// CHECK: arith.cmpf uno
// CHECK: llvm.store {{.*}} : vector<16xi16>
kernel.group_function @round attributes {domain = array<i64: 8, 16>, rows_per_block = 8 : i64,
    input_types = [memref<8x16xbf16>], output_types = [memref<8x16xbf16>], column_sums = array<i64>} {
^bb0(%x: tensor<8x16xbf16>):
  %f = arith.extf %x : tensor<8x16xbf16> to tensor<8x16xf32>
  %q = arith.mulf %f, %f : tensor<8x16xf32>
  %y = arith.truncf %q : tensor<8x16xf32> to tensor<8x16xbf16>
  qwen.yield %y : tensor<8x16xbf16>
}

// -----

// The partial sums of a block are zeroed, then every row is added.
// CHECK-LABEL: func.func @sum(
// CHECK-SAME: !llvm.ptr, %{{.*}}: !llvm.ptr
// CHECK: llvm.intr.memset
// CHECK: scf.for
// CHECK: scf.for
// CHECK: arith.addf {{.*}} : vector<16xf32>
// CHECK: llvm.store
kernel.group_function @sum attributes {domain = array<i64: 8, 16>, rows_per_block = 8 : i64,
    input_types = [memref<8x16xf32>], output_types = [memref<16xf32>], column_sums = array<i64: 0>} {
^bb0(%x: tensor<8x16xf32>):
  %s = qwen.reduce_sum %x dims = [0] : tensor<8x16xf32> -> tensor<16xf32>
  qwen.yield %s : tensor<16xf32>
}

// Flags that let LLVM contract or reassociate do not reach it: fused and unfused
// groups give the same bits.
// CHECK-LABEL: func.func @flags
// CHECK-NOT: fastmath
// CHECK: return
kernel.group_function @flags attributes {domain = array<i64: 2, 16>, rows_per_block = 2 : i64,
    input_types = [memref<2x16xf32>], output_types = [memref<2x16xf32>], column_sums = array<i64>} {
^bb0(%x: tensor<2x16xf32>):
  %0 = arith.mulf %x, %x fastmath<fast> : tensor<2x16xf32>
  %1 = arith.addf %0, %x fastmath<contract> : tensor<2x16xf32>
  qwen.yield %1 : tensor<2x16xf32>
}
