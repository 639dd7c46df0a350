// RUN: qwen-opt %s -split-input-file -verify-diagnostics -qwen-fuse-groups=remarks=true

// Bytes: addf reads and writes 3 tensors of 256 bytes alone and fused; a product
// reads the result, and the second sum cannot join without a cycle.
func.func @cycle(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-remark @+2 {{group 'add' over [8, 8] holds 1 op: arith.addf; bytes 768 -> 768}}
  // expected-note @+1 {{joining would create a cycle through qwen.linear}}
  %a = arith.addf %x, %y : tensor<8x8xf32>
  %l = qwen.linear %a, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  // expected-remark @+2 {{group 'add' over [8, 8] holds 1 op}}
  // expected-note @+1 {{result #0 ends here: @cycle returns it}}
  %b = arith.addf %a, %l : tensor<8x8xf32>
  return %b : tensor<8x8xf32>
}

// -----

// Three ops of 256-byte tensors: 2 + 3 + 3 = 8 tensors alone, 3 fused.
func.func @silu(%g: tensor<8x8xf32>, %u: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %s = qwen.sigmoid %g : tensor<8x8xf32>
  %a = arith.mulf %g, %s : tensor<8x8xf32>
  // expected-remark @+2 {{group 'silu_mul' over [8, 8] holds 3 ops: qwen.sigmoid, 2 arith.mulf; bytes 2048 -> 768}}
  // expected-note @+1 {{result #0 ends here: @silu returns it}}
  %h = arith.mulf %a, %u : tensor<8x8xf32>
  return %h : tensor<8x8xf32>
}

// -----

func.func @other_space(%x: tensor<8x2x4xf32>, %cu: tensor<3xi32>) -> (tensor<8x2x4xf32>, tensor<4xf32>, tensor<8x8xf32>) {
  %e = math.exp %x : tensor<8x2x4xf32>
  // expected-remark @+3 {{group 'exp' over [8, 2, 4] holds 2 ops}}
  // expected-note @+2 {{result #0 ends here: math.log reads it over another iteration space, [8, 8]; operand of the hand-written kernel qwen.attention}}
  // expected-note @+1 {{result #1 ends here: @other_space returns it}}
  %s = qwen.reduce_sum %e dims = [0, 1] : tensor<8x2x4xf32> -> tensor<4xf32>
  %o, %lse = qwen.attention %e, %x, %x, %cu {scale = 1.0 : f64} : tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<3xi32> -> tensor<8x2x4xf32>, tensor<8x2xf32>
  %r = qwen.reshape %e : tensor<8x2x4xf32> -> tensor<8x8xf32>
  // expected-remark @+2 {{group 'log' over [8, 8] holds 1 op}}
  // expected-note @+1 {{result #0 ends here: @other_space returns it}}
  %l = math.log %r : tensor<8x8xf32>
  return %o, %s, %l : tensor<8x2x4xf32>, tensor<4xf32>, tensor<8x8xf32>
}
