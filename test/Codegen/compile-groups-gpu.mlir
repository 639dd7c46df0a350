// RUN: qwen-opt %s -qwen-lower-groups-gpu -qwen-compile-groups-gpu=ptx=true | FileCheck %s
// RUN: qwen-opt %s -qwen-lower-groups-gpu | qwen-opt -qwen-compile-groups-gpu=ptx=true | FileCheck %s
// RUN: not qwen-opt %s -qwen-lower-groups-gpu "-qwen-compile-groups-gpu=target=sm_1 ptx=true" 2>&1 | FileCheck %s --check-prefix=BAD
// RUN: env QWEN_NVJITLINK=/nowhere/libnvJitLink.so not qwen-opt %s -qwen-lower-groups-gpu -qwen-compile-groups-gpu 2>&1 | FileCheck %s --check-prefix=MISSING

// One entry with the launch bounds; 16-byte accesses; exp2, quotient and
// conversions are single instructions. No library function, no contraction.
// CHECK-NOT: kernel.group_function
// CHECK-NOT: module @qwen_groups
// CHECK: kernel.binary @code {object =
// CHECK-SAME: .target sm_90a
// CHECK-NOT: .extern
// CHECK-SAME: .entry f
// CHECK-SAME: .reqntid 256
// CHECK-SAME: ld.global.v4.b32
// CHECK-NOT: fma
// CHECK-SAME: ex2.approx.ftz.f32
// CHECK-NOT: fma
// CHECK-SAME: rcp.approx.ftz.f32
// CHECK-NOT: fma
// CHECK-SAME: cvt.rn.bf16x2.f32
// CHECK-NOT: fma
// CHECK-SAME: st.global.v4.b32
// CHECK-SAME: symbols = [#kernel.code_symbol<name = "f", rows = 64, operand_bytes = [65536, 65536], operand_alignments = [16, 16], column_sums = [], threads = 256, blocks = 16, shared_bytes = 0>], target = "sm_90a"}
// BAD: error: unknown processor 'sm_1' of nvptx64
// MISSING: error: compiling for a GPU needs nvJitLink of the CUDA toolkit 13, looked for as /nowhere/libnvJitLink.so
kernel.group_function @f attributes {domain = array<i64: 64, 512>, rows_per_block = 2 : i64,
    input_types = [memref<64x512xbf16>], output_types = [memref<64x512xbf16>], column_sums = array<i64>} {
^bb0(%x: tensor<64x512xbf16>):
  %f = arith.extf %x : tensor<64x512xbf16> to tensor<64x512xf32>
  %s = qwen.sigmoid %f : tensor<64x512xf32>
  %p = arith.mulf %f, %s : tensor<64x512xf32>
  %q = arith.addf %p, %s : tensor<64x512xf32>
  %y = arith.truncf %q : tensor<64x512xf32> to tensor<64x512xbf16>
  qwen.yield %y : tensor<64x512xbf16>
}
