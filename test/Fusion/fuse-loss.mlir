// RUN: qwen-opt %s -qwen-fuse-loss | FileCheck %s

// The gradient's sweep gives the loss: the forward op goes.
// CHECK-LABEL: func.func @fused
// CHECK-NOT: qwen.linear_cross_entropy %
// CHECK: %[[NLL:.*]], %{{.*}}, %{{.*}} = qwen.linear_cross_entropy_grad
// CHECK: return %[[NLL]]
func.func @fused(%x: tensor<8x4xf32>, %w: tensor<16x4xf32>, %labels: tensor<8xi32>, %dnll: tensor<8xf32>)
    -> (tensor<8xf32>, tensor<8x4xf32>, tensor<16x4xf32>) {
  %nll = qwen.linear_cross_entropy %x, %w, %labels : tensor<8x4xf32>, tensor<16x4xf32>, tensor<8xi32> -> tensor<8xf32>
  %nll2, %dx, %dw = qwen.linear_cross_entropy_grad %x, %w, %labels, %dnll
      : tensor<8x4xf32>, tensor<16x4xf32>, tensor<8xi32>, tensor<8xf32> -> tensor<8xf32>, tensor<8x4xf32>, tensor<16x4xf32>
  return %nll, %dx, %dw : tensor<8xf32>, tensor<8x4xf32>, tensor<16x4xf32>
}

// A cotangent made from the loss needs the loss first.
// CHECK-LABEL: func.func @cotangent_of_loss
// CHECK: qwen.linear_cross_entropy %
// CHECK: qwen.linear_cross_entropy_grad
func.func @cotangent_of_loss(%x: tensor<8x4xf32>, %w: tensor<16x4xf32>, %labels: tensor<8xi32>)
    -> (tensor<8xf32>, tensor<8x4xf32>, tensor<16x4xf32>) {
  %nll = qwen.linear_cross_entropy %x, %w, %labels : tensor<8x4xf32>, tensor<16x4xf32>, tensor<8xi32> -> tensor<8xf32>
  %dnll = arith.mulf %nll, %nll : tensor<8xf32>
  %nll2, %dx, %dw = qwen.linear_cross_entropy_grad %x, %w, %labels, %dnll
      : tensor<8x4xf32>, tensor<16x4xf32>, tensor<8xi32>, tensor<8xf32> -> tensor<8xf32>, tensor<8x4xf32>, tensor<16x4xf32>
  return %nll, %dx, %dw : tensor<8xf32>, tensor<8x4xf32>, tensor<16x4xf32>
}

// Another ignore_index is another loss.
// CHECK-LABEL: func.func @other_loss
// CHECK: qwen.linear_cross_entropy %
// CHECK: qwen.linear_cross_entropy_grad
func.func @other_loss(%x: tensor<8x4xf32>, %w: tensor<16x4xf32>, %labels: tensor<8xi32>, %dnll: tensor<8xf32>)
    -> (tensor<8xf32>, tensor<8x4xf32>, tensor<16x4xf32>) {
  %nll = qwen.linear_cross_entropy %x, %w, %labels {ignore_index = -1} : tensor<8x4xf32>, tensor<16x4xf32>, tensor<8xi32> -> tensor<8xf32>
  %nll2, %dx, %dw = qwen.linear_cross_entropy_grad %x, %w, %labels, %dnll
      : tensor<8x4xf32>, tensor<16x4xf32>, tensor<8xi32>, tensor<8xf32> -> tensor<8xf32>, tensor<8x4xf32>, tensor<16x4xf32>
  return %nll, %dx, %dw : tensor<8xf32>, tensor<8x4xf32>, tensor<16x4xf32>
}
