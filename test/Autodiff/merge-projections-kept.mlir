// RUN: qwen-opt %s --qwen-merge-projections --split-input-file | FileCheck %s

// A weight with a second use keeps its own place.
qwen.parameter @a : tensor<4x4xf32> {init = "normal"}
qwen.parameter @b : tensor<4x4xf32> {init = "normal"}
// CHECK-LABEL: func.func @second_use
// CHECK-COUNT-3: qwen.linear {{.*}} tensor<4x4xf32> -> tensor<8x4xf32>
// CHECK-NOT: qwen.split
func.func @second_use(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %a = qwen.get_parameter [@a] : tensor<4x4xf32>
  %b = qwen.get_parameter [@b] : tensor<4x4xf32>
  %0 = qwen.linear %x, %a : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  %1 = qwen.linear %x, %b : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  %2 = arith.addf %0, %1 : tensor<8x4xf32>
  %3 = qwen.linear %2, %b : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  return %3 : tensor<8x4xf32>
}

// -----

// One parameter for both arguments, as in a model with tied projections: it
// cannot lie in one stack twice.
qwen.parameter @tied : tensor<4x4xf32> {init = "normal"}
// CHECK-LABEL: func.func private @two
// CHECK-COUNT-2: qwen.linear
// CHECK-NOT: qwen.split
func.func private @two(%x: tensor<8x4xf32>, %a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = qwen.linear %x, %a : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  %1 = qwen.linear %x, %b : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  return %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
}
func.func @forward(%x: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %a = qwen.get_parameter [@tied] : tensor<4x4xf32>
  %b = qwen.get_parameter [@tied] : tensor<4x4xf32>
  %0:2 = call @two(%x, %a, %b) : (tensor<8x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)
  return %0#0, %0#1 : tensor<8x4xf32>, tensor<8x4xf32>
}

// -----

// @shared is in two different pairs; only one of them could lie together.
qwen.parameter @shared : tensor<4x4xf32> {init = "normal"}
qwen.parameter @b0 : tensor<4x4xf32> {init = "normal"}
qwen.parameter @b1 : tensor<4x4xf32> {init = "normal"}
// CHECK-LABEL: func.func private @pair
// CHECK-COUNT-2: qwen.linear
// CHECK-NOT: qwen.split
func.func private @pair(%x: tensor<8x4xf32>, %a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = qwen.linear %x, %a : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  %1 = qwen.linear %x, %b : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  return %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
}
func.func @forward(%x: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %s0 = qwen.get_parameter [@shared] : tensor<4x4xf32>
  %b0 = qwen.get_parameter [@b0] : tensor<4x4xf32>
  %0:2 = call @pair(%x, %s0, %b0) : (tensor<8x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)
  %s1 = qwen.get_parameter [@shared] : tensor<4x4xf32>
  %b1 = qwen.get_parameter [@b1] : tensor<4x4xf32>
  %1:2 = call @pair(%0#0, %s1, %b1) : (tensor<8x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)
  return %1#0, %1#1 : tensor<8x4xf32>, tensor<8x4xf32>
}

// -----

// An activation as second operand is no projection by a parameter.
qwen.parameter @w : tensor<8x4xf32> {init = "normal"}
// CHECK-LABEL: func.func @scores
// CHECK-COUNT-2: qwen.linear
// CHECK-NOT: qwen.split
func.func @scores(%x: tensor<8x4xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %w = qwen.get_parameter [@w] : tensor<8x4xf32>
  %0 = qwen.linear %x, %w : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x8xf32>
  %1 = qwen.linear %x, %x : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x8xf32>
  return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
}
