// RUN: not qwen-opt %s -qwen-choose-algorithms=file=%S/Inputs/tuning-short.txt 2>&1 | FileCheck %s --check-prefix=SHORT
// RUN: not qwen-opt %s -qwen-choose-algorithms=file=%S/Inputs/tuning-sizes.txt 2>&1 | FileCheck %s --check-prefix=SIZES
// RUN: not qwen-opt %s -qwen-choose-algorithms=file=%S/Inputs/tuning-twice.txt 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not qwen-opt %s -qwen-choose-algorithms=file=%S/Inputs/no-such-table.txt 2>&1 | FileCheck %s --check-prefix=MISSING

// SHORT: error: tuning table: {{.*}}tuning-short.txt:1: expected 'first' or 9 numbers (id, tile, stages, splitk, reduction, swizzle, custom, inner_shape, cluster) from 0 to 2^32 - 1, found 8
// SIZES: error: tuning table: {{.*}}tuning-sizes.txt:2: expected a product like '8192x5120x17408 nt bf16 bf16 set:', found '64x48 nt bf16 bf16 set: first = 1 1'
// TWICE: error: tuning table: {{.*}}tuning-twice.txt:2: a second line for 64x48x32 nt bf16 bf16 set
// MISSING: error: cannot read tuning table '{{.*}}no-such-table.txt': No such file or directory
module {}
