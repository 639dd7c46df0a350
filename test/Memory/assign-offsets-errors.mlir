// RUN: qwen-opt %s -split-input-file -verify-diagnostics -qwen-assign-offsets

func.func @eval(%y: memref<4xf32> {qwen.output = "y"}) attributes {qwen.program} {
  // expected-note @+1 {{memory is read before anything is written to it}}
  %a = memref.alloc() : memref<4xf32>
  // expected-error @+1 {{'kernel.copy' op}}
  kernel.copy ins(%a : memref<4xf32>) outs(%y : memref<4xf32>)
  return
}

// -----

// expected-error @+1 {{'func.func' op argument #0 must be named by qwen.input or by qwen.output}}
func.func @eval(%y: memref<4xf32>) attributes {qwen.program} {
  return
}

// -----

func.func @eval(%x: memref<4xf32> {qwen.input = "x"}) attributes {qwen.program} {
  return
}
// expected-error @+1 {{'func.func' op input 'x' is 'memref<8xf32>', in another program 'memref<4xf32>'}}
func.func @micro_step(%x: memref<8xf32> {qwen.input = "x"}) attributes {qwen.program} {
  return
}

// -----

qwen.parameter @u : tensor<4x8xf32> {init = "normal"}
qwen.parameter @v : tensor<4x8xf32> {init = "normal"}
qwen.parameter @w : tensor<4x8xf32> {init = "normal"}
func.func @eval() attributes {qwen.program} {
  %0 = kernel.storage parameter [@u, @v] : memref<8x8xf32>
  // expected-error @+1 {{'kernel.storage' op stacks @v, which is also part of the stack [@u, @v]}}
  %1 = kernel.storage parameter [@v, @w] : memref<8x8xf32>
  return
}

// -----

qwen.parameter @u : tensor<4x8xf32> {init = "normal"}
func.func @eval() attributes {qwen.program} {
  // expected-error @+1 {{'kernel.storage' op must be a contiguous memref of the 32 elements of its parameters, but is 'memref<5x8xf32>'}}
  %0 = kernel.storage parameter [@u] : memref<5x8xf32>
  return
}

// -----

qwen.parameter @u : tensor<4x8xf32> {init = "normal"}
func.func @eval() attributes {qwen.program} {
  // expected-error @+1 {{'kernel.storage' op names @q, which is no qwen.parameter}}
  %0 = kernel.storage parameter [@q] : memref<4x8xf32>
  return
}

// -----

qwen.parameter @u : tensor<4x8xbf16> {init = "normal"}
func.func @eval() attributes {qwen.program} {
  %0 = kernel.storage moment1 [@u] : memref<4x8xf32>
  // expected-error @+1 {{'kernel.storage' op has element type 'bf16' for @u, elsewhere 'f32'}}
  %1 = kernel.storage moment1 [@u] : memref<4x8xbf16>
  return
}
