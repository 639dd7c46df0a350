// RUN: qwen-opt %s -split-input-file -qwen-lower-groups-gpu | FileCheck %s

// Flat: four units of eight columns a thread would leave processors idle here,
// so one; all threads have work, so nothing is conditional.
// CHECK-LABEL: module @qwen_groups
// CHECK: llvm.func @double(%{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>)
// CHECK-SAME: kernel.code_symbol = #kernel.code_symbol<name = "double", rows = 64, operand_bytes = [65536, 65536], operand_alignments = [16, 16], column_sums = [], threads = 256, blocks = 16, shared_bytes = 0>
// CHECK-SAME: nvvm.kernel
// CHECK-SAME: nvvm.reqntid = array<i32: 256>
// CHECK-NOT: scf
// CHECK: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xbf16>
// CHECK: vector.bitcast {{.*}} : vector<8xbf16> to vector<4xi32>
// CHECK: vector.interleave {{.*}} -> vector<8xf32>
// CHECK: arith.addf {{.*}} : vector<8xf32>
// CHECK: arith.truncf {{.*}} : vector<8xf32> to vector<8xbf16>
// CHECK-NOT: scf
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<1>
// CHECK-NOT: kernel.group_function
kernel.group_function @double attributes {domain = array<i64: 64, 512>, rows_per_block = 8 : i64,
    input_types = [memref<64x512xbf16>], output_types = [memref<64x512xbf16>], column_sums = array<i64>} {
^bb0(%x: tensor<64x512xbf16>):
  %f = arith.extf %x : tensor<64x512xbf16> to tensor<64x512xf32>
  %g = arith.addf %f, %f : tensor<64x512xf32>
  %y = arith.truncf %g : tensor<64x512xf32> to tensor<64x512xbf16>
  qwen.yield %y : tensor<64x512xbf16>
}

// -----

// A call whose view starts 4 bytes into a buffer: two elements of bf16 a unit.
// The call learns the rows of a block.
// CHECK-LABEL: func.func @caller
// CHECK: kernel.group @shifted {{.*}}rows_per_block = 1 : i64
// CHECK: llvm.func @shifted
// CHECK-SAME: operand_alignments = [4, 4]
// CHECK: llvm.load {{.*}} {alignment = 4 : i64} : !llvm.ptr<1> -> vector<2xbf16>
kernel.group_function @shifted attributes {domain = array<i64: 4, 8>, rows_per_block = 4 : i64,
    input_types = [memref<4x8xbf16>], output_types = [memref<4x8xbf16>], column_sums = array<i64>} {
^bb0(%x: tensor<4x8xbf16>):
  %y = arith.negf %x : tensor<4x8xbf16>
  qwen.yield %y : tensor<4x8xbf16>
}
func.func @caller(%buffer: memref<40xbf16>, %out: memref<4x8xbf16>) {
  %in = kernel.view %buffer[2] : memref<40xbf16> to memref<4x8xbf16>
  kernel.group @shifted ins(%in : memref<4x8xbf16>) outs(%out : memref<4x8xbf16>)
      {rows = 4 : i64, rows_per_block = 4 : i64, flops_per_row = 8 : i64}
  return
}

// -----

// A row of 640 units is 320 threads with two each. The loop carries the next
// row's loads; the sum goes through shuffles, shared memory and one barrier;
// the row is not loaded again.
// CHECK-LABEL: llvm.func @normalize(
// CHECK-SAME: threads = 320, blocks = 391, shared_bytes = 256
// CHECK-COUNT-2: llvm.load {{.*}} -> vector<8xbf16>
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) -> (vector<8xbf16>, vector<8xbf16>)
// CHECK-COUNT-2: llvm.load {{.*}} -> vector<8xbf16>
// CHECK-COUNT-5: nvvm.shfl.sync bfly
// CHECK: llvm.store {{.*}} : f32, !llvm.ptr<3>
// CHECK: nvvm.barrier
// CHECK: llvm.load {{.*}} : !llvm.ptr<3> -> f32
// CHECK-COUNT-4: nvvm.shfl.sync bfly
// CHECK-NOT: nvvm.barrier
// CHECK-NOT: llvm.load
// CHECK-COUNT-2: llvm.store {{.*}} : vector<8xbf16>, !llvm.ptr<1>
// CHECK: scf.yield
// CHECK: llvm.mlir.global internal @normalize_shared() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<256 x i8>
kernel.group_function @normalize attributes {domain = array<i64: 8192, 5120>, rows_per_block = 8 : i64,
    input_types = [memref<8192x5120xbf16>], output_types = [memref<8192x5120xbf16>], column_sums = array<i64>} {
^bb0(%x: tensor<8192x5120xbf16>):
  %f = arith.extf %x : tensor<8192x5120xbf16> to tensor<8192x5120xf32>
  %s = qwen.reduce_sum %f dims = [1] : tensor<8192x5120xf32> -> tensor<8192xf32>
  %b = qwen.broadcast %s dims = [0] : tensor<8192xf32> -> tensor<8192x5120xf32>
  %d = arith.divf %f, %b : tensor<8192x5120xf32>
  %y = arith.truncf %d : tensor<8192x5120xf32> to tensor<8192x5120xbf16>
  qwen.yield %y : tensor<8192x5120xbf16>
}

// -----

// Heads of 128 columns: half a warp a row. Sums over rows stay in registers;
// those of the sixteen teams of a block are added in order through shared
// memory.
// CHECK-LABEL: llvm.func @sum(
// CHECK-SAME: column_sums = [0], threads = 256
// CHECK: scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>)
// CHECK: arith.addf {{.*}} : vector<8xf32>
// CHECK: }
// CHECK: llvm.store {{.*}} : vector<8xf32>, !llvm.ptr<3>
// CHECK: nvvm.barrier
// CHECK: scf.if
// CHECK-COUNT-16: llvm.load {{.*}} : !llvm.ptr<3> -> f32
// CHECK: llvm.store {{.*}} : f32, !llvm.ptr<1>
kernel.group_function @sum attributes {domain = array<i64: 8192, 48, 128>, rows_per_block = 8 : i64,
    input_types = [memref<8192x48x128xf32>], output_types = [memref<128xf32>], column_sums = array<i64: 0>} {
^bb0(%x: tensor<8192x48x128xf32>):
  %s = qwen.reduce_sum %x dims = [0, 1] : tensor<8192x48x128xf32> -> tensor<128xf32>
  qwen.yield %s : tensor<128xf32>
}

// -----

// The rotated quarter of a head is exchanged through shared memory within the
// warp.
// CHECK-LABEL: llvm.func @rotate(
// CHECK: scf.for
// CHECK: scf.if
// CHECK: llvm.store {{.*}} : vector<8xf32>, !llvm.ptr<3>
// CHECK: nvvm.bar.warp.sync
// CHECK: scf.if {{.*}} -> (vector<8xf32>)
// CHECK: llvm.load {{.*}} : !llvm.ptr<3> -> vector<8xf32>
// CHECK-COUNT-2: llvm.load {{.*}} : !llvm.ptr<1> -> vector<8xf32>
// CHECK: nvvm.bar.warp.sync
kernel.group_function @rotate attributes {domain = array<i64: 64, 4, 256>, rows_per_block = 8 : i64,
    input_types = [memref<64x4x256xbf16>, memref<64x64xf32>], output_types = [memref<64x4x256xbf16>], column_sums = array<i64>} {
^bb0(%x: tensor<64x4x256xbf16>, %angles: tensor<64x64xf32>):
  %f = arith.extf %x : tensor<64x4x256xbf16> to tensor<64x4x256xf32>
  %r = qwen.rope %f, %angles : tensor<64x4x256xf32>, tensor<64x64xf32>
  %y = arith.truncf %r : tensor<64x4x256xf32> to tensor<64x4x256xbf16>
  qwen.yield %y : tensor<64x4x256xbf16>
}

// -----

// Column sums over long rows: two teams of ten warps a block, each with a
// barrier of its own, so that a block leaves one partial sum for both. The
// weight is loaded with the row (the cache has it), the first sum's input a row
// ahead, and what only the result needs when the row begins.
// CHECK-LABEL: llvm.func @scale(
// CHECK-SAME: column_sums = [1], threads = 640, blocks = 128
// CHECK: scf.for {{.*}} -> (vector<8xbf16>, vector<8xbf16>, vector<8xf32>, vector<8xf32>)
// CHECK-COUNT-6: llvm.load {{.*}} -> vector<8xbf16>
// CHECK: nvvm.barrier id = %{{.*}} number_of_threads = %{{.*}}
// CHECK-NOT: -> vector<8xbf16>
// CHECK: scf.yield
kernel.group_function @scale attributes {domain = array<i64: 8192, 5120>, rows_per_block = 8 : i64,
    input_types = [memref<8192x5120xbf16>, memref<5120xbf16>, memref<8192x5120xbf16>],
    output_types = [memref<8192x5120xbf16>, memref<5120xf32>], column_sums = array<i64: 1>} {
^bb0(%x: tensor<8192x5120xbf16>, %w: tensor<5120xbf16>, %z: tensor<8192x5120xbf16>):
  %f = arith.extf %x : tensor<8192x5120xbf16> to tensor<8192x5120xf32>
  %s = qwen.reduce_sum %f dims = [1] : tensor<8192x5120xf32> -> tensor<8192xf32>
  %b = qwen.broadcast %s dims = [0] : tensor<8192xf32> -> tensor<8192x5120xf32>
  %v = qwen.broadcast %w dims = [1] : tensor<5120xbf16> -> tensor<8192x5120xbf16>
  %u = arith.extf %v : tensor<8192x5120xbf16> to tensor<8192x5120xf32>
  %g = arith.extf %z : tensor<8192x5120xbf16> to tensor<8192x5120xf32>
  %p = arith.mulf %b, %u : tensor<8192x5120xf32>
  %q = arith.mulf %p, %g : tensor<8192x5120xf32>
  %y = arith.truncf %q : tensor<8192x5120xf32> to tensor<8192x5120xbf16>
  %c = qwen.reduce_sum %q dims = [0] : tensor<8192x5120xf32> -> tensor<5120xf32>
  qwen.yield %y, %c : tensor<8192x5120xbf16>, tensor<5120xf32>
}
