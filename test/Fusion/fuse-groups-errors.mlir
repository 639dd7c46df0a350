// RUN: qwen-opt %s -split-input-file -verify-diagnostics -allow-unregistered-dialect -qwen-fuse-groups -verify-fusion

func.func @rank(%x: tensor<2x2x2x2xf32>) -> tensor<2x2x2x2xf32> {
  // expected-error @+1 {{'math.exp' op runs over 4 dimensions, but a fused group over 1 to 3}}
  %0 = math.exp %x : tensor<2x2x2x2xf32>
  return %0 : tensor<2x2x2x2xf32>
}

// -----

func.func @scalar(%x: tensor<f32>) -> tensor<f32> {
  // expected-error @+1 {{'math.exp' op runs over 0 dimensions, but a fused group over 1 to 3}}
  %0 = math.exp %x : tensor<f32>
  return %0 : tensor<f32>
}

// -----

// expected-error @+1 {{'func.func' op has control flow; expected straight-line code}}
func.func @blocks(%x: tensor<2xf32>) -> tensor<2xf32> {
  "test.br"()[^bb1] : () -> ()
^bb1:
  return %x : tensor<2xf32>
}

// -----

// A sum over a middle dimension has no place in a group.
func.func @middle_sum(%x: tensor<2x4x8xf32>) -> tensor<2x8xf32> {
  // expected-error @+1 {{'qwen.reduce_sum' op in @middle_sum is outside every group after fusion}}
  %0 = qwen.reduce_sum %x dims = [1] : tensor<2x4x8xf32> -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// -----

// Groups compute in floats.
func.func @integers(%x: tensor<2x4xi32>) -> tensor<2x4xi32> {
  // expected-error @+1 {{'arith.addi' op in @integers is outside every group after fusion}}
  %0 = arith.addi %x, %x : tensor<2x4xi32>
  return %0 : tensor<2x4xi32>
}

// -----

// The result of a comparison cannot lie in memory.
func.func @comparison(%x: tensor<2x4xf32>) -> tensor<2x4xi1> {
  // expected-error @+1 {{'arith.cmpf' op in @comparison is outside every group after fusion}}
  %0 = arith.cmpf ogt, %x, %x : tensor<2x4xf32>
  return %0 : tensor<2x4xi1>
}
