// RUN: qwen-opt %s --qwen-autodiff --split-input-file --verify-diagnostics

// expected-error@+1 {{expected a function '@forward' of one block to differentiate}}
module {}

// -----

// expected-error@+1 {{has no result with qwen.output = "nll" to differentiate}}
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{result 'nll' should be a tensor of f32 or f64, found 'tensor<4xbf16>'}}
func.func @forward(%x: tensor<4xbf16>) -> (tensor<4xbf16> {qwen.output = "nll"}) {
  return %x : tensor<4xbf16>
}

// -----

// expected-error@+1 {{computes a loss that no parameter influences}}
func.func @forward(%x: tensor<4xf32>) -> (tensor<4xf32> {qwen.output = "nll"}) {
  return %x : tensor<4xf32>
}

// -----

func.func @forward(%x: tensor<4xf32>) -> (tensor<4xf32> {qwen.output = "nll"}) {
  return %x : tensor<4xf32>
}
// expected-error@+1 {{name '@eval' is reserved for a program}}
func.func @eval() {
  return
}

// -----

// The message names the op and the function of the model.
qwen.parameter @w : tensor<4xf32> {init = "one"}
func.func private @layer(%w: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'math.round' op has no derivative rule, but a parameter influences the loss through it in function '@layer'}}
  %y = math.round %w : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @forward() -> (tensor<4xf32> {qwen.output = "nll"}) {
  %w = qwen.get_parameter [@w] : tensor<4xf32>
  %y = call @layer(%w) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// A rule that covers only some operands is no reason for a silent zero.
qwen.parameter @w : tensor<4x1x8xf32> {init = "one"}
qwen.parameter @angles : tensor<4x4xf32> {init = "one"}
func.func @forward() -> (tensor<4x1x8xf32> {qwen.output = "nll"}) {
  %w = qwen.get_parameter [@w] : tensor<4x1x8xf32>
  %angles = qwen.get_parameter [@angles] : tensor<4x4xf32>
  // expected-error@+1 {{has no derivative with respect to operand #1, but that depends on a parameter in function '@forward'}}
  %y = qwen.rope %w, %angles : tensor<4x1x8xf32>, tensor<4x4xf32>
  return %y : tensor<4x1x8xf32>
}

// -----

qwen.parameter @w : tensor<4x2x8xf32> {init = "one"}
func.func @forward(%cu: tensor<3xi32>) -> (tensor<4x2xf32> {qwen.output = "nll"}) {
  %w = qwen.get_parameter [@w] : tensor<4x2x8xf32>
  // expected-error@+1 {{has no derivative through result 'lse', but the loss depends on it}}
  %o, %lse = qwen.attention %w, %w, %w, %cu {scale = 1.0} : tensor<4x2x8xf32>, tensor<4x2x8xf32>, tensor<4x2x8xf32>, tensor<3xi32> -> tensor<4x2x8xf32>, tensor<4x2xf32>
  return %lse : tensor<4x2xf32>
}

// -----

qwen.parameter @w : tensor<4xf32> {init = "one"}
func.func private @again(%w: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{cannot be differentiated: function '@again' calls itself}}
  %y = call @again(%w) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @forward() -> (tensor<4xf32> {qwen.output = "nll"}) {
  %w = qwen.get_parameter [@w] : tensor<4xf32>
  %y = call @again(%w) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

qwen.parameter @w : tensor<4xf32> {init = "one"}
func.func private @elsewhere(%w: tensor<4xf32>) -> tensor<4xf32>
func.func @forward() -> (tensor<4xf32> {qwen.output = "nll"}) {
  %w = qwen.get_parameter [@w] : tensor<4xf32>
  // expected-error@+1 {{cannot be differentiated: function '@elsewhere' needs a body of one block}}
  %y = call @elsewhere(%w) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// Not trained, and not fatal: the rest of the model is.
qwen.parameter @w : tensor<4xf32> {init = "one"}
// expected-warning@+1 {{parameter '@stray' does not influence the loss; it is not trained}}
qwen.parameter @stray : tensor<4xf32> {init = "one"}
func.func @forward() -> (tensor<4xf32> {qwen.output = "nll"}) {
  %w = qwen.get_parameter [@w] : tensor<4xf32>
  return %w : tensor<4xf32>
}
