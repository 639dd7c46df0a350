// RUN: split-file %s %t
// RUN: not qwen-opt %t/no-parameters.mlir --qwen-sharding 2>&1 | FileCheck %t/no-parameters.mlir
// RUN: not qwen-opt %t/inside.mlir --qwen-sharding 2>&1 | FileCheck %t/inside.mlir
// RUN: not qwen-opt %t/huge.mlir --qwen-sharding 2>&1 | FileCheck %t/huge.mlir
// RUN: not qwen-opt %t/inside.mlir --qwen-sharding=world-size=1 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: not qwen-opt %t/inside.mlir --qwen-sharding=prefetch=-1 2>&1 | FileCheck %s --check-prefix=PREFETCH
// RUN: not qwen-opt %t/inside.mlir --qwen-sharding=grad-type=f16 2>&1 | FileCheck %s --check-prefix=GRAD
// RUN: not qwen-opt %t/inside.mlir --qwen-sharding=embedding-exchange=all 2>&1 | FileCheck %s --check-prefix=EXCHANGE
// RUN: not qwen-opt %t/one-rank.mlir --verify-sharding 2>&1 | FileCheck %t/one-rank.mlir
// RUN: not qwen-opt %t/length.mlir --verify-sharding=world-size=2 2>&1 | FileCheck %t/length.mlir
// RUN: not qwen-opt %t/homeless.mlir --verify-sharding=world-size=2 2>&1 | FileCheck %t/homeless.mlir
// RUN: not qwen-opt %t/whole.mlir --verify-sharding=world-size=2 2>&1 | FileCheck %t/whole.mlir
// RUN: not qwen-opt %t/function.mlir --verify-sharding=world-size=2 2>&1 | FileCheck %t/function.mlir
// RUN: not qwen-opt %t/direct.mlir --verify-sharding=world-size=2 2>&1 | FileCheck %t/direct.mlir
// RUN: not qwen-opt %t/overwrite.mlir --verify-sharding=world-size=2 2>&1 | FileCheck %t/overwrite.mlir
// RUN: not qwen-opt %t/overwrite-rows.mlir --verify-sharding=world-size=2 2>&1 | FileCheck %t/overwrite-rows.mlir
// RUN: not qwen-opt %t/rows-in-function.mlir --verify-sharding=world-size=2 2>&1 | FileCheck %t/rows-in-function.mlir
// RUN: not qwen-opt %t/other.mlir --verify-sharding=world-size=2 2>&1 | FileCheck %t/other.mlir

// RANKS: error: option world-size should be between 2 and 4096, found 1
// PREFETCH: error: option prefetch should be at least 0, found -1
// GRAD: error: option grad-type should be f32 or bf16, found f16
// EXCHANGE: error: option embedding-exchange should be auto, rows or table, found all

//--- no-parameters.mlir
// CHECK: error: has no qwen.parameter to shard
module {}

//--- inside.mlir
// CHECK: error: 'qwen.get_parameter' op stands in a function that is no program; only programs can be sharded
qwen.parameter @w : tensor<4xf32> {init = "zero"}
func.func private @f() -> tensor<4xf32> {
  %w = qwen.get_parameter [@w] : tensor<4xf32>
  return %w : tensor<4xf32>
}

//--- huge.mlir
// CHECK: error: 'qwen.parameter' op is in a unit of 4294967296 elements, more than the 2147483647 that can be gathered at once
qwen.parameter @w : tensor<65536x65536xf32> {init = "zero"}

//--- one-rank.mlir
// CHECK: error: 'qwen.bucket' op is for several ranks, but there is one
qwen.parameter @w : tensor<4xf32> {init = "zero"}
qwen.bucket @b : tensor<128xf32> {parameters = [@w], offsets = array<i64: 0>}

//--- length.mlir
// CHECK: error: 'qwen.bucket' op length must be a multiple of 64 for each of the 2 ranks, but is 64
module attributes {qwen.world_size = 2 : i64} {
  qwen.parameter @w : tensor<4xf32> {init = "zero"}
  qwen.bucket @b : tensor<64xf32> {parameters = [@w], offsets = array<i64: 0>}
}

//--- homeless.mlir
// CHECK: error: 'qwen.parameter' op is in no bucket
module attributes {qwen.world_size = 2 : i64} {
  qwen.parameter @w : tensor<4xf32> {init = "zero"}
}

//--- whole.mlir
// CHECK: error: 'qwen.get_parameter' op reads a whole parameter, but 2 ranks hold it in parts
module attributes {qwen.world_size = 2 : i64} {
  qwen.parameter @w : tensor<4xf32> {init = "zero"}
  qwen.bucket @b : tensor<128xf32> {parameters = [@w], offsets = array<i64: 0>}
  func.func @eval() -> tensor<4xf32> attributes {qwen.program} {
    %w = qwen.get_parameter [@w] : tensor<4xf32>
    return %w : tensor<4xf32>
  }
}

//--- function.mlir
// CHECK: error: 'qwen.all_gather' op must stand in a program
module attributes {qwen.world_size = 2 : i64} {
  qwen.parameter @w : tensor<4xf32> {init = "zero"}
  qwen.bucket @b : tensor<128xf32> {parameters = [@w], offsets = array<i64: 0>}
  func.func private @f() {
    %w = qwen.all_gather @b : tensor<128xf32>
    return
  }
}

//--- direct.mlir
// CHECK: error: 'func.return' op reads a gathered bucket, but is no qwen.bucket_part
module attributes {qwen.world_size = 2 : i64} {
  qwen.parameter @w : tensor<4xf32> {init = "zero"}
  qwen.bucket @b : tensor<128xf32> {parameters = [@w], offsets = array<i64: 0>}
  func.func @eval() -> tensor<128xf32> attributes {qwen.program} {
    %w = qwen.all_gather @b : tensor<128xf32>
    return %w : tensor<128xf32>
  }
}

//--- overwrite.mlir
// CHECK: error: 'qwen.reduce_scatter' op overwrites the gradient that an earlier one has left
module attributes {qwen.world_size = 2 : i64} {
  qwen.parameter @w : tensor<4xf32> {init = "zero"}
  qwen.bucket @b : tensor<128xf32> {parameters = [@w], offsets = array<i64: 0>}
  func.func @first(%g: tensor<128xf32>) attributes {qwen.program} {
    qwen.reduce_scatter @b, %g : tensor<128xf32>
    qwen.reduce_scatter @b, %g {overwrite} : tensor<128xf32>
    return
  }
}

//--- overwrite-rows.mlir
// CHECK: error: 'qwen.sharded_embedding_grad' op overwrites the gradient that an earlier one has left
module attributes {qwen.world_size = 2 : i64} {
  qwen.parameter @w : tensor<8x8xf32> {init = "zero"}
  qwen.bucket @b : tensor<128xf32> {parameters = [@w], offsets = array<i64: 0>}
  func.func @first(%g: tensor<128xf32>, %d: tensor<2x8xf32>, %i: tensor<2xi32>) attributes {qwen.program} {
    qwen.reduce_scatter @b, %g {overwrite} : tensor<128xf32>
    qwen.sharded_embedding_grad @b[@w], %d, %i {overwrite} : tensor<2x8xf32>, tensor<2xi32>
    return
  }
}

//--- rows-in-function.mlir
// CHECK: error: 'qwen.sharded_embedding' op must stand in a program
module attributes {qwen.world_size = 2 : i64} {
  qwen.parameter @w : tensor<8x8xf32> {init = "zero"}
  qwen.bucket @b : tensor<128xf32> {parameters = [@w], offsets = array<i64: 0>}
  func.func private @f(%i: tensor<2xi32>) -> tensor<2x8xf32> {
    %x = qwen.sharded_embedding @b[@w], %i : tensor<2xi32> -> tensor<2x8xf32>
    return %x : tensor<2x8xf32>
  }
}

//--- other.mlir
// CHECK: error: should have qwen.world_size = 2
module attributes {qwen.world_size = 3 : i64} {}
