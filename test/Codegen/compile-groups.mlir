// RUN: qwen-opt %s -qwen-lower-groups -qwen-compile-groups | FileCheck %s
// RUN: qwen-opt %s -qwen-lower-groups -qwen-compile-groups=target=x86-64-v2 | FileCheck %s --check-prefix=V2
// RUN: qwen-opt %s -qwen-lower-groups | qwen-opt -qwen-compile-groups | FileCheck %s
// RUN: not qwen-opt %s -qwen-lower-groups -qwen-compile-groups=target=z80 2>&1 | FileCheck %s --check-prefix=BAD

// The groups become one ELF object.
// CHECK-NOT: kernel.group_function
// CHECK-NOT: module @qwen_groups
// CHECK: kernel.binary @code {object = "\7FELF{{.*}}", symbols = [#kernel.code_symbol<name = "f", rows = 2, operand_bytes = [32, 32], operand_alignments = [4, 4], column_sums = [], threads = 0, blocks = 0, shared_bytes = 0>], target = "x86-64-v3"}
// V2: kernel.binary @code {{.*}} target = "x86-64-v2"
// BAD: error: unknown processor 'z80' of x86_64
kernel.group_function @f attributes {domain = array<i64: 2, 4>, rows_per_block = 2 : i64,
    input_types = [memref<2x4xf32>], output_types = [memref<2x4xf32>], column_sums = array<i64>} {
^bb0(%x: tensor<2x4xf32>):
  %y = arith.negf %x : tensor<2x4xf32>
  qwen.yield %y : tensor<2x4xf32>
}
