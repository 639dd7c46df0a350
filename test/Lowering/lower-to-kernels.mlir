// RUN: qwen-opt %s -qwen-lower-to-kernels -verify-lowering | FileCheck %s

qwen.parameter @a : tensor<6x4xf32> {init = "normal"}
qwen.parameter @b : tensor<2x4xf32> {init = "normal"}
qwen.parameter @n : tensor<4xf32> {init = "zero", decay = false}

// Inputs, then an output a result; attributes move along.
// CHECK-LABEL: func.func @linear
// CHECK-SAME: (%[[X:.*]]: memref<8x4xf32> {qwen.input = "x"}, %[[Y:.*]]: memref<8x8xf32> {qwen.output = "y"}) attributes {qwen.program}
// CHECK: %[[W:.*]] = kernel.storage parameter [@a, @b] : memref<8x4xf32>
// CHECK: kernel.gemm ins(%[[X]], %[[W]] : {{.*}}) outs(%[[Y]] : memref<8x8xf32>) {transpose_b = true}
// CHECK-NEXT: return
func.func @linear(%x: tensor<8x4xf32> {qwen.input = "x"}) -> (tensor<8x8xf32> {qwen.output = "y"}) attributes {qwen.program} {
  %w = qwen.get_parameter [@a, @b] : tensor<8x4xf32>
  %y = qwen.linear %x, %w : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// Pieces of a split are strided views that a group reads in place. Equal groups
// on equal layouts share a function; another layout needs its own.
// CHECK-LABEL: func.func @split
// CHECK-SAME: (%[[X:[a-z0-9]+]]: memref<8x4xf32>, %{{.*}}: memref<8x4xf32>, %{{.*}}
// CHECK: %[[A:.*]] = memref.alloc() {qwen.name = "linear"} : memref<8x8xf32>
// CHECK: kernel.gemm {{.*}} outs(%[[A]]
// CHECK: %[[V0:.*]] = kernel.view %[[A]][0] : memref<8x8xf32> to memref<8x4xf32, strided<[8, 1]>>
// CHECK: %[[V1:.*]] = kernel.view %[[A]][4] : memref<8x8xf32> to memref<8x4xf32, strided<[8, 1]>>
// CHECK: kernel.group @sig ins(%[[V0]] : memref<8x4xf32, strided<[8, 1]>>) outs(%{{.*}} : memref<8x4xf32>) {flops_per_row = 4 : i64, rows = 8 : i64, rows_per_block = 8 : i64}
// CHECK: kernel.group @sig ins(%[[V1]]
// CHECK: kernel.group @sig_2 ins(%[[X]] : memref<8x4xf32>)
// CHECK-NOT: kernel.copy
// CHECK: return
func.func @split(%x: tensor<8x4xf32>, %w: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>) {
  %y = qwen.linear %x, %w : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x8xf32>
  %p, %q = qwen.split %y : tensor<8x8xf32> -> tensor<8x4xf32>, tensor<8x4xf32>
  %s = qwen.group(%a = %p : tensor<8x4xf32>) domain = [8, 4] attributes {label = "sig"} -> tensor<8x4xf32> {
    %0 = qwen.sigmoid %a : tensor<8x4xf32>
    qwen.yield %0 : tensor<8x4xf32>
  }
  %t = qwen.group(%a = %q : tensor<8x4xf32>) domain = [8, 4] attributes {label = "sig"} -> tensor<8x4xf32> {
    %0 = qwen.sigmoid %a : tensor<8x4xf32>
    qwen.yield %0 : tensor<8x4xf32>
  }
  %u = qwen.group(%a = %x : tensor<8x4xf32>) domain = [8, 4] attributes {label = "sig"} -> tensor<8x4xf32> {
    %0 = qwen.sigmoid %a : tensor<8x4xf32>
    qwen.yield %0 : tensor<8x4xf32>
  }
  return %s, %t, %u : tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
}

// Producers write into the joined buffer, through reshapes too; a piece of
// zeros is filled.
// CHECK-LABEL: func.func @concat
// CHECK: %[[J:.*]] = memref.alloc() {qwen.name = "concat"} : memref<8x12xf32>
// CHECK: %[[V:.*]] = kernel.view %[[J]][0] : memref<8x12xf32> to memref<8x4xf32, strided<[12, 1]>>
// CHECK: %[[V3:.*]] = kernel.view %[[V]][0] : memref<8x4xf32, strided<[12, 1]>> to memref<8x2x2xf32, strided<[12, 2, 1]>>
// CHECK: kernel.group @sig3 {{.*}} outs(%[[V3]] : memref<8x2x2xf32, strided<[12, 2, 1]>>)
// CHECK: %[[W:.*]] = kernel.view %[[J]][4]
// CHECK: kernel.gemm {{.*}} outs(%[[W]] : memref<8x4xf32, strided<[12, 1]>>)
// CHECK: %[[Z:.*]] = kernel.view %[[J]][8]
// CHECK: kernel.fill outs(%[[Z]] : memref<8x4xf32, strided<[12, 1]>>) {value = 0.000000e+00 : f64}
// CHECK-NOT: kernel.copy
// CHECK: kernel.gemm ins(%[[J]]
func.func @concat(%x: tensor<8x2x2xf32>, %y: tensor<8x4xf32>, %w: tensor<4x4xf32>, %v: tensor<5x12xf32>) -> tensor<8x5xf32> {
  %s = qwen.group(%a = %x : tensor<8x2x2xf32>) domain = [8, 2, 2] attributes {label = "sig3"} -> tensor<8x2x2xf32> {
    %0 = qwen.sigmoid %a : tensor<8x2x2xf32>
    qwen.yield %0 : tensor<8x2x2xf32>
  }
  %r = qwen.reshape %s : tensor<8x2x2xf32> -> tensor<8x4xf32>
  %l = qwen.linear %y, %w : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  %zero = arith.constant dense<0.0> : tensor<8x4xf32>
  %j = qwen.concat %r, %l, %zero : tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x12xf32>
  %o = qwen.linear %j, %v : tensor<8x12xf32>, tensor<5x12xf32> -> tensor<8x5xf32>
  return %o : tensor<8x5xf32>
}

// What is an input, a view, or wanted twice is copied.
// CHECK-LABEL: func.func @copies
// CHECK-SAME: (%[[X:.*]]: memref<8x4xf32>, %[[W:.*]]: memref<4x4xf32>, %[[O0:.*]]: memref<8x4xf32>, %[[O1:.*]]: memref<8x2xf32>, %[[O2:.*]]: memref<8x4xf32>, %[[O3:.*]]: memref<8x4xf32>)
// CHECK: kernel.gemm {{.*}} outs(%[[O2]]
// CHECK-DAG: kernel.copy ins(%[[X]] : memref<8x4xf32>) outs(%[[O0]]
// CHECK-DAG: kernel.copy ins(%{{.*}} : memref<8x2xf32, strided<[4, 1]>>) outs(%[[O1]]
// CHECK-DAG: kernel.copy ins(%[[O2]] : memref<8x4xf32>) outs(%[[O3]]
func.func @copies(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> (tensor<8x4xf32>, tensor<8x2xf32>, tensor<8x4xf32>, tensor<8x4xf32>) {
  %l = qwen.linear %x, %w : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  %p, %q = qwen.split %x : tensor<8x4xf32> -> tensor<8x2xf32>, tensor<8x2xf32>
  return %x, %p, %l, %l : tensor<8x4xf32>, tensor<8x2xf32>, tensor<8x4xf32>, tensor<8x4xf32>
}

// A slice of every head has no strides as a matrix: copied once, then seen as one.
// CHECK-LABEL: func.func @strided_matrix
// CHECK: %[[C:.*]] = memref.alloc() {qwen.name = "copy"} : memref<8x2x2xf32>
// CHECK: kernel.copy ins(%{{.*}} : memref<8x2x2xf32, strided<[8, 4, 1]>>) outs(%[[C]]
// CHECK: %[[M:.*]] = kernel.view %[[C]][0] : memref<8x2x2xf32> to memref<8x4xf32>
// CHECK: kernel.gemm ins(%[[M]]
func.func @strided_matrix(%x: tensor<8x2x4xf32>, %w: tensor<4x4xf32>) -> tensor<8x4xf32> {
  %p, %q = qwen.split %x : tensor<8x2x4xf32> -> tensor<8x2x2xf32>, tensor<8x2x2xf32>
  %m = qwen.reshape %p : tensor<8x2x2xf32> -> tensor<8x4xf32>
  %l = qwen.linear %m, %w : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  return %l : tensor<8x4xf32>
}

// The kernels that make gradients add them: a product in place, a column sum
// through the callee's output argument.
// CHECK-LABEL: func.func private @layer_backward
// CHECK-SAME: %[[DN:[a-z0-9]+]]: memref<4xf32> {qwen.accumulate}, %[[DX:[a-z0-9]+]]: memref<8x4xf32>)
// CHECK: kernel.group @colsum ins(%{{.*}}) outs(%[[DN]], %[[DX]] : memref<4xf32>, memref<8x4xf32>) {accumulate = array<i64: 0>, column_sums = array<i64: 0>, flops_per_row = 8 : i64
func.func private @layer_backward(%dy: tensor<8x4xf32>) -> (tensor<4xf32>, tensor<8x4xf32>) {
  %dn, %dx = qwen.group(%a = %dy : tensor<8x4xf32>) domain = [8, 4] attributes {label = "colsum"} -> (tensor<4xf32>, tensor<8x4xf32>) {
    %0 = qwen.reduce_sum %a dims = [0] : tensor<8x4xf32> -> tensor<4xf32>
    %1 = qwen.sigmoid %a : tensor<8x4xf32>
    qwen.yield %0, %1 : tensor<4xf32>, tensor<8x4xf32>
  }
  return %dn, %dx : tensor<4xf32>, tensor<8x4xf32>
}
// Its copy for a caller that overwrites keeps the name.
// CHECK-LABEL: func.func private @layer_backward_0
// CHECK-SAME: %[[DN:[a-z0-9]+]]: memref<4xf32>, %[[DX:[a-z0-9]+]]: memref<8x4xf32>)
// CHECK-SAME: attributes {qwen.specializes = "layer_backward"}
// CHECK: kernel.group @colsum ins(%{{.*}}) outs(%[[DN]], %[[DX]] : memref<4xf32>, memref<8x4xf32>) {column_sums = array<i64: 0>, flops_per_row = 8 : i64
// CHECK-LABEL: func.func @gradients
// CHECK: %[[G:.*]] = kernel.storage gradient [@n] : memref<4xf32>
// CHECK: %[[T:.*]] = memref.alloc() {qwen.name = "layer_backward.1"}
// CHECK: call @layer_backward(%{{.*}}, %[[G]], %[[T]]) : (memref<8x4xf32>, memref<4xf32>, memref<8x4xf32>) -> ()
// CHECK: %[[S:.*]] = kernel.storage gradient [@a, @b] : memref<8x4xf32>
// CHECK: kernel.gemm ins(%{{.*}}, %[[T]] : {{.*}}) outs(%[[S]] : memref<8x4xf32>) {accumulate = true, transpose_a = true}
// CHECK-NEXT: return
func.func @gradients(%dy: tensor<8x4xf32>, %dz: tensor<8x8xf32>) attributes {qwen.program} {
  %dn, %dx = call @layer_backward(%dy) : (tensor<8x4xf32>) -> (tensor<4xf32>, tensor<8x4xf32>)
  qwen.accumulate_grad [@n], %dn : tensor<4xf32>
  %dw = qwen.matmul %dz, %dx {transpose_a} : tensor<8x8xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
  qwen.accumulate_grad [@a, @b], %dw : tensor<8x4xf32>
  return
}

// The same where they overwrite.
// CHECK-LABEL: func.func @first_gradients
// CHECK: %[[G:.*]] = kernel.storage gradient [@n] : memref<4xf32>
// CHECK: %[[T:.*]] = memref.alloc() {qwen.name = "layer_backward.1"}
// CHECK: call @layer_backward_0(%{{.*}}, %[[G]], %[[T]]) : (memref<8x4xf32>, memref<4xf32>, memref<8x4xf32>) -> ()
// CHECK: %[[S:.*]] = kernel.storage gradient [@a, @b] : memref<8x4xf32>
// CHECK: kernel.gemm ins(%{{.*}}, %[[T]] : {{.*}}) outs(%[[S]] : memref<8x4xf32>) {transpose_a = true}
// CHECK: call @layer_backward(%{{.*}}, %{{.*}}, %{{.*}})
// CHECK-NEXT: return
func.func @first_gradients(%dy: tensor<8x4xf32>, %dz: tensor<8x8xf32>) attributes {qwen.program} {
  %dn, %dx = call @layer_backward(%dy) : (tensor<8x4xf32>) -> (tensor<4xf32>, tensor<8x4xf32>)
  qwen.accumulate_grad [@n], %dn {overwrite} : tensor<4xf32>
  %dw = qwen.matmul %dz, %dx {transpose_a} : tensor<8x8xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
  qwen.accumulate_grad [@a, @b], %dw {overwrite} : tensor<8x4xf32>
  %again, %unused = call @layer_backward(%dx) : (tensor<8x4xf32>) -> (tensor<4xf32>, tensor<8x4xf32>)
  qwen.accumulate_grad [@n], %again : tensor<4xf32>
  return
}

// Storage of every role; tensor_ids are the parameters' places in the module.
// CHECK-LABEL: func.func @update
// CHECK: kernel.grad_norm grads
// CHECK: kernel.storage moment1 [@n] : memref<4xf32>
// CHECK: kernel.adamw {{.*}}tensor_ids = array<i64: 0, 2>
func.func @update(%hyper: tensor<8xf32>, %rng: tensor<2xi32>) -> tensor<4xf32> attributes {qwen.program} {
  %stats = qwen.grad_norm %hyper of [@a, @n] : tensor<8xf32> -> tensor<4xf32>
  qwen.adamw %hyper, %stats, %rng of [@a, @n] {decay = false, moment_type = f32} : tensor<8xf32>, tensor<4xf32>, tensor<2xi32>
  return %stats : tensor<4xf32>
}

// A group is never called like a function of the C library, which the code of
// an f64 group calls by that name.
// CHECK-LABEL: func.func @library_name
func.func @library_name(%x: tensor<8x4xf64>) -> tensor<8x4xf64> {
  // CHECK: kernel.group @exp_2
  %y = qwen.group(%a = %x : tensor<8x4xf64>) domain = [8, 4] attributes {label = "exp"} -> tensor<8x4xf64> {
    %0 = math.exp %a : tensor<8x4xf64>
    qwen.yield %0 : tensor<8x4xf64>
  }
  return %y : tensor<8x4xf64>
}
