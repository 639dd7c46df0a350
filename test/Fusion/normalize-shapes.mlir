// RUN: qwen-opt %s -qwen-normalize-shapes | FileCheck %s

// A join of dimensions moves behind the chain, whose other operand is cut.
// CHECK-LABEL: func.func @sink_collapse
// CHECK-SAME: (%[[O:.*]]: tensor<8x2x4xf32>, %[[G:.*]]: tensor<8x8xf32>)
// CHECK: %[[G1:.*]] = qwen.reshape %[[G]] : tensor<8x8xf32> -> tensor<8x2x4xf32>
// CHECK: %[[S:.*]] = qwen.sigmoid %[[G1]] : tensor<8x2x4xf32>
// CHECK: %[[Y:.*]] = arith.mulf %[[O]], %[[S]] : tensor<8x2x4xf32>
// CHECK: %[[R:.*]] = qwen.reshape %[[Y]] : tensor<8x2x4xf32> -> tensor<8x8xf32>
// CHECK: return %[[R]]
func.func @sink_collapse(%o: tensor<8x2x4xf32>, %g: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %o1 = qwen.reshape %o : tensor<8x2x4xf32> -> tensor<8x8xf32>
  %s = qwen.sigmoid %g : tensor<8x8xf32>
  %y = arith.mulf %o1, %s : tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// A cut of dimensions moves before the chain.
// CHECK-LABEL: func.func @hoist_expansion
// CHECK-SAME: (%[[X:.*]]: tensor<8x8xbf16>)
// CHECK: %[[R:.*]] = qwen.reshape %[[X]] : tensor<8x8xbf16> -> tensor<8x2x4xbf16>
// CHECK: arith.extf %[[R]] : tensor<8x2x4xbf16> to tensor<8x2x4xf32>
// CHECK: math.exp
// CHECK-NOT: qwen.reshape
func.func @hoist_expansion(%x: tensor<8x8xbf16>) -> tensor<8x2x4xf32> {
  %0 = arith.extf %x : tensor<8x8xbf16> to tensor<8x8xf32>
  %1 = math.exp %0 : tensor<8x8xf32>
  %2 = qwen.reshape %1 : tensor<8x8xf32> -> tensor<8x2x4xf32>
  return %2 : tensor<8x2x4xf32>
}

// A vector over the joined dimension has no form in the cut space: stays.
// CHECK-LABEL: func.func @vector_blocks
// CHECK: arith.mulf %{{.*}}, %{{.*}} : tensor<8x8xf32>
// CHECK: qwen.reshape
func.func @vector_blocks(%x: tensor<8x8xf32>, %w: tensor<8xf32>) -> tensor<8x2x4xf32> {
  %0 = qwen.broadcast %w dims = [1] : tensor<8xf32> -> tensor<8x8xf32>
  %1 = arith.mulf %x, %0 : tensor<8x8xf32>
  %2 = qwen.reshape %1 : tensor<8x8xf32> -> tensor<8x2x4xf32>
  return %2 : tensor<8x2x4xf32>
}

// CHECK-LABEL: func.func @split
// CHECK: %[[P:.*]]:2 = qwen.split %{{.*}} : tensor<8x6xbf16> -> tensor<8x2xbf16>, tensor<8x4xbf16>
// CHECK-DAG: arith.extf %[[P]]#0
// CHECK-DAG: arith.extf %[[P]]#1
func.func @split(%x: tensor<8x6xbf16>) -> (tensor<8x2xf32>, tensor<8x4xf32>) {
  %0 = arith.extf %x : tensor<8x6xbf16> to tensor<8x6xf32>
  %1, %2 = qwen.split %0 : tensor<8x6xf32> -> tensor<8x2xf32>, tensor<8x4xf32>
  return %1, %2 : tensor<8x2xf32>, tensor<8x4xf32>
}

// CHECK-LABEL: func.func @concat
// CHECK-SAME: (%[[A:.*]]: tensor<8x2xf32>, %[[B:.*]]: tensor<8x4xf32>)
// CHECK-DAG: %[[A1:.*]] = arith.truncf %[[A]]
// CHECK-DAG: %[[B1:.*]] = arith.truncf %[[B]]
// CHECK: qwen.concat %[[A1]], %[[B1]]
func.func @concat(%a: tensor<8x2xf32>, %b: tensor<8x4xf32>) -> tensor<8x6xbf16> {
  %0 = qwen.concat %a, %b : tensor<8x2xf32>, tensor<8x4xf32> -> tensor<8x6xf32>
  %1 = arith.truncf %0 : tensor<8x6xf32> to tensor<8x6xbf16>
  return %1 : tensor<8x6xbf16>
}

// exp of a vector becomes exp over the space; exp of a row value stays one a row.
// CHECK-LABEL: func.func @broadcast
// CHECK-SAME: (%[[A:.*]]: tensor<4xf32>, %[[R:.*]]: tensor<8xf32>)
// CHECK: %[[AB:.*]] = qwen.broadcast %[[A]] dims = [1] : tensor<4xf32> -> tensor<8x4xf32>
// CHECK: math.exp %[[AB]] : tensor<8x4xf32>
// CHECK: %[[E:.*]] = math.exp %[[R]] : tensor<8xf32>
// CHECK: qwen.broadcast %[[E]] dims = [0]
func.func @broadcast(%a: tensor<4xf32>, %r: tensor<8xf32>) -> tensor<8x4xf32> {
  %0 = math.exp %a : tensor<4xf32>
  %1 = qwen.broadcast %0 dims = [1] : tensor<4xf32> -> tensor<8x4xf32>
  %2 = math.exp %r : tensor<8xf32>
  %3 = qwen.broadcast %2 dims = [0] : tensor<8xf32> -> tensor<8x4xf32>
  %4 = arith.addf %1, %3 : tensor<8x4xf32>
  return %4 : tensor<8x4xf32>
}

// The gradient of A_log: what is done to the column sum is done before it.
// CHECK-LABEL: func.func @column_sum
// CHECK-SAME: (%[[X:.*]]: tensor<8x4xf32>, %[[A:.*]]: tensor<4xf32>)
// CHECK-DAG: %[[AB:.*]] = qwen.broadcast %[[A]] dims = [1]
// CHECK-DAG: %[[E:.*]] = math.exp %[[AB]]
// CHECK-DAG: %[[P:.*]] = arith.mulf %[[X]], %[[E]] : tensor<8x4xf32>
// CHECK: %[[N:.*]] = arith.negf %[[P]] : tensor<8x4xf32>
// CHECK: %[[S:.*]] = qwen.reduce_sum %[[N]] dims = [0]
// CHECK: return %[[S]]
func.func @column_sum(%x: tensor<8x4xf32>, %a: tensor<4xf32>) -> tensor<4xf32> {
  %e = math.exp %a : tensor<4xf32>
  %s = qwen.reduce_sum %x dims = [0] : tensor<8x4xf32> -> tensor<4xf32>
  %p = arith.mulf %s, %e : tensor<4xf32>
  %n = arith.negf %p : tensor<4xf32>
  return %n : tensor<4xf32>
}
