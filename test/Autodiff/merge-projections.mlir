// RUN: qwen-opt %s --qwen-merge-projections | FileCheck %s

qwen.parameter @q : tensor<6x4xf32> {init = "normal"}
qwen.parameter @k : tensor<2x4xf32> {init = "normal"}
qwen.parameter @o : tensor<4x6xf32> {init = "normal"}
qwen.parameter @q1 : tensor<6x4xf32> {init = "normal"}
qwen.parameter @k1 : tensor<2x4xf32> {init = "normal"}
qwen.parameter @a : tensor<3x4xf32> {init = "normal"}
qwen.parameter @b : tensor<5x4xf32> {init = "normal"}

// Two linears of %x in one function: one GEMM on one argument, in the place of
// the first; the linear of another input stays.
// CHECK-LABEL: func.func private @layer(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<8x4xf32>, %[[W:[a-z0-9]+]]: tensor<8x4xf32>, %[[O:[a-z0-9]+]]: tensor<4x6xf32>)
// CHECK: %[[Y:.*]] = qwen.linear %[[X]], %[[W]] : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x8xf32>
// CHECK-NEXT: %[[P:.*]]:2 = qwen.split %[[Y]] : tensor<8x8xf32> -> tensor<8x6xf32>, tensor<8x2xf32>
// CHECK-NEXT: %[[Z:.*]] = qwen.linear %[[P]]#0, %[[O]]
// CHECK-NEXT: return %[[Z]], %[[P]]#1
func.func private @layer(%x: tensor<8x4xf32>, %q: tensor<6x4xf32>, %o: tensor<4x6xf32>, %k: tensor<2x4xf32>) -> (tensor<8x4xf32>, tensor<8x2xf32>) {
  %0 = qwen.linear %x, %q : tensor<8x4xf32>, tensor<6x4xf32> -> tensor<8x6xf32>
  %1 = qwen.linear %0, %o : tensor<8x6xf32>, tensor<4x6xf32> -> tensor<8x4xf32>
  %2 = qwen.linear %x, %k : tensor<8x4xf32>, tensor<2x4xf32> -> tensor<8x2xf32>
  return %1, %2 : tensor<8x4xf32>, tensor<8x2xf32>
}

// Every call passes its own parameters, stacked in the order of the linears.
// CHECK-LABEL: func.func @forward(
// CHECK-DAG: %[[S0:.*]] = qwen.get_parameter [@q, @k] : tensor<8x4xf32>
// CHECK-DAG: %[[O0:.*]] = qwen.get_parameter [@o] : tensor<4x6xf32>
// CHECK: %[[L:.*]]:2 = call @layer(%{{.*}}, %[[S0]], %[[O0]])
// CHECK: %[[S1:.*]] = qwen.get_parameter [@q1, @k1] : tensor<8x4xf32>
// CHECK: call @layer(%[[L]]#0, %[[S1]], %{{.*}})
func.func @forward(%x: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x3xf32>, tensor<8x5xf32>) {
  %q = qwen.get_parameter [@q] : tensor<6x4xf32>
  %k = qwen.get_parameter [@k] : tensor<2x4xf32>
  %o = qwen.get_parameter [@o] : tensor<4x6xf32>
  %0:2 = call @layer(%x, %q, %o, %k) : (tensor<8x4xf32>, tensor<6x4xf32>, tensor<4x6xf32>, tensor<2x4xf32>) -> (tensor<8x4xf32>, tensor<8x2xf32>)
  %q1 = qwen.get_parameter [@q1] : tensor<6x4xf32>
  %k1 = qwen.get_parameter [@k1] : tensor<2x4xf32>
  %1:2 = call @layer(%0#0, %q1, %o, %k1) : (tensor<8x4xf32>, tensor<6x4xf32>, tensor<4x6xf32>, tensor<2x4xf32>) -> (tensor<8x4xf32>, tensor<8x2xf32>)

  // Parameters read in the function itself are stacked there.
  // CHECK: %[[AB:.*]] = qwen.get_parameter [@a, @b] : tensor<8x4xf32>
  // CHECK-NEXT: %[[YAB:.*]] = qwen.linear %{{.*}}, %[[AB]]
  // CHECK-NEXT: %[[PAB:.*]]:2 = qwen.split %[[YAB]]
  // CHECK: return %{{.*}}, %[[PAB]]#0, %[[PAB]]#1
  %a = qwen.get_parameter [@a] : tensor<3x4xf32>
  %b = qwen.get_parameter [@b] : tensor<5x4xf32>
  %2 = qwen.linear %1#0, %a : tensor<8x4xf32>, tensor<3x4xf32> -> tensor<8x3xf32>
  %3 = qwen.linear %1#0, %b : tensor<8x4xf32>, tensor<5x4xf32> -> tensor<8x5xf32>
  return %1#0, %2, %3 : tensor<8x4xf32>, tensor<8x3xf32>, tensor<8x5xf32>
}
