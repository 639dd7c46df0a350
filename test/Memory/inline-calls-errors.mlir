// RUN: qwen-opt %s -split-input-file -verify-diagnostics -qwen-inline-calls

func.func private @absent(memref<4xf32>)

func.func @eval(%y: memref<4xf32> {qwen.output = "y"}) attributes {qwen.program} {
  // expected-error @+1 {{'func.call' op callee @absent has no body}}
  func.call @absent(%y) : (memref<4xf32>) -> ()
  return
}

// -----

func.func private @again(%y: memref<4xf32>) {
  func.call @again(%y) : (memref<4xf32>) -> ()
  // expected-error @-1 {{'func.call' op calls never end: @again calls itself}}
  return
}

func.func @eval(%y: memref<4xf32> {qwen.output = "y"}) attributes {qwen.program} {
  func.call @again(%y) : (memref<4xf32>) -> ()
  return
}

// -----

func.func @eval(%y: memref<4xf32> {qwen.output = "y"}) attributes {qwen.program} {
  // expected-error @+1 {{'func.call' op a program must not call itself}}
  func.call @eval(%y) : (memref<4xf32>) -> ()
  return
}

// -----

func.func private @value(%y: memref<4xf32>) -> memref<4xf32> {
  return %y : memref<4xf32>
}

func.func @eval(%y: memref<4xf32> {qwen.output = "y"}) attributes {qwen.program} {
  // expected-error @+1 {{'func.call' op callee @value must have one block and no results}}
  %0 = func.call @value(%y) : (memref<4xf32>) -> memref<4xf32>
  return
}
