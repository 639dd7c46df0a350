// RUN: qwen-opt %s -split-input-file -verify-diagnostics -allow-unregistered-dialect -qwen-lower-to-kernels

func.func @elementwise(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{'math.exp' op in @elementwise has no kernel; the nearest form that has one is the same op in a qwen.group, which qwen-fuse-groups makes}}
  %y = math.exp %x : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

func.func @norm(%x: tensor<8x64xf32>, %w: tensor<64xf32>) -> tensor<8x64xf32> {
  // expected-error @+1 {{'qwen.rms_norm' op in @norm has no kernel; the nearest form that has one is its parts, which qwen-decompose and qwen-fuse-groups make a group}}
  %y = qwen.rms_norm %x, %w {eps = 1.0e-6 : f64, offset = 1.0 : f64} : tensor<8x64xf32>, tensor<64xf32> -> tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}

// -----

func.func @middle_sum(%x: tensor<2x4x8xf32>) -> tensor<2x8xf32> {
  // expected-error @+1 {{'qwen.reduce_sum' op in @middle_sum has no kernel; the nearest form that has one is a sum over the last dimension or over all leading ones, in a qwen.group}}
  %0 = qwen.reduce_sum %x dims = [1] : tensor<2x4x8xf32> -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// -----

func.func @constant() -> tensor<2xf32> {
  // expected-error @+1 {{'arith.constant' op in @constant has no kernel; a float tensor constant needs one value everywhere}}
  %y = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

qwen.parameter @w : tensor<8x4xf32> {init = "normal"}

// An elementwise kernel overwrites its result.
func.func @cannot_accumulate(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{'qwen.group' op result #0 is added to a gradient, but its kernel cannot accumulate, in @cannot_accumulate; matrix products, column sums and the weight results of gradient kernels can}}
  %y = qwen.group(%a = %x : tensor<8x4xf32>) domain = [8, 4] -> tensor<8x4xf32> {
    %0 = qwen.sigmoid %a : tensor<8x4xf32>
    qwen.yield %0 : tensor<8x4xf32>
  }
  qwen.accumulate_grad [@w], %y : tensor<8x4xf32>
  return
}

// -----

qwen.parameter @w : tensor<8x4xf32> {init = "normal"}

func.func @input_gradient(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{'qwen.accumulate_grad' op in @input_gradient adds a value that no kernel can write to the gradient: it is an input, a view, or used elsewhere too}}
  qwen.accumulate_grad [@w], %x : tensor<8x4xf32>
  return
}

// -----

qwen.parameter @w : tensor<8x4xf32> {init = "normal"}

func.func @used_twice(%x: tensor<4x8xf32>, %y: tensor<4x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{'qwen.matmul' op result #0 is added to a gradient and used elsewhere too, in @used_twice}}
  %dw = qwen.matmul %x, %y {transpose_a} : tensor<4x8xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  qwen.accumulate_grad [@w], %dw : tensor<8x4xf32>
  return %dw : tensor<8x4xf32>
}

// -----

qwen.parameter @w : tensor<8x4xf32> {init = "normal"}

func.func private @passes_on(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{'func.return' op in @passes_on result #0 is added to a gradient by every caller, but no kernel can write it there: it is an input, a view, or used elsewhere too}}
  return %x : tensor<8x4xf32>
}
func.func @caller(%x: tensor<8x4xf32>) {
  %y = call @passes_on(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  qwen.accumulate_grad [@w], %y : tensor<8x4xf32>
  return
}

// -----

// expected-error @+1 {{'func.func' op needs a body of one block to be lowered to kernels}}
func.func private @declared(%x: tensor<8x4xf32>) -> tensor<8x4xf32>

// -----

// An op of another dialect.
func.func @foreign(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{'test.op' op in @foreign has no kernel; the nearest form that has one is an op of the qwen dialect}}
  %y = "test.op"(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}
