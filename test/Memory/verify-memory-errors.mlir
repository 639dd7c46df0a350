// RUN: qwen-opt %s -split-input-file -verify-diagnostics -verify-memory

// expected-error @+1 {{the module has no attribute qwen.memory with the size of each class}}
module {}

// -----

module attributes {qwen.memory = {activation = 128 : i64}} {
  func.func @eval(%x: memref<4xf32> {qwen.input = "x", qwen.offset = 0 : i64}) attributes {qwen.program} {
    // expected-error @+1 {{'memref.alloc' op has no place}}
    %a = memref.alloc() : memref<4xf32>
    kernel.copy ins(%x : memref<4xf32>) outs(%a : memref<4xf32>)
    return
  }
}

// -----

module attributes {qwen.memory = {activation = 128 : i64}} {
  func.func @eval(%x: memref<4xf32> {qwen.input = "x", qwen.offset = 0 : i64}) attributes {qwen.program} {
    // expected-note @+1 {{the other allocation}}
    %a = memref.alloc() {qwen.offset = 0 : i64, qwen.slot = 0 : i64} : memref<4xf32>
    // expected-error @+1 {{'memref.alloc' op shares bytes with memory that is alive at the same launch}}
    %b = memref.alloc() {qwen.offset = 0 : i64, qwen.slot = 1 : i64} : memref<4xf32>
    kernel.copy ins(%x : memref<4xf32>) outs(%a : memref<4xf32>)
    kernel.copy ins(%a : memref<4xf32>) outs(%b : memref<4xf32>)
    return
  }
}

// -----

module attributes {qwen.memory = {activation = 128 : i64}} {
  func.func @eval(%x: memref<4xf32> {qwen.input = "x", qwen.offset = 0 : i64}) attributes {qwen.program} {
    // expected-error @+1 {{'memref.alloc' op offset must be a multiple of 64 inside the arena of 128 bytes, but is 128}}
    %a = memref.alloc() {qwen.offset = 128 : i64, qwen.slot = 0 : i64} : memref<4xf32>
    kernel.copy ins(%x : memref<4xf32>) outs(%a : memref<4xf32>)
    return
  }
}

// -----

module attributes {qwen.memory = {activation = 128 : i64}} {
  func.func private @f(%x: memref<4xf32>) {
    return
  }
  func.func @eval(%x: memref<4xf32> {qwen.input = "x", qwen.offset = 0 : i64}) attributes {qwen.program} {
    // expected-error @+1 {{'func.call' op must not be left after the stage memory}}
    func.call @f(%x) : (memref<4xf32>) -> ()
    return
  }
}

// -----

module attributes {qwen.memory = {activation = 128 : i64}} {
  // expected-error @+1 {{'func.func' op argument #0 has no place}}
  func.func @eval(%x: memref<4xf32> {qwen.input = "x"}) attributes {qwen.program} {
    return
  }
}

// -----

module attributes {qwen.memory = {activation = 128 : i64}} {
  func.func @eval(%y: memref<4xf32> {qwen.output = "y", qwen.offset = 0 : i64}) attributes {qwen.program} {
    // expected-error @+1 {{'memref.alloc' op is read before anything is written to it}}
    %a = memref.alloc() {qwen.offset = 0 : i64, qwen.slot = 0 : i64} : memref<4xf32>
    kernel.copy ins(%a : memref<4xf32>) outs(%y : memref<4xf32>)
    return
  }
}

// -----

module attributes {qwen.memory = {activation = 0 : i64}} {
  qwen.parameter @w : tensor<4xf32> {init = "one"}
  qwen.parameter @v : tensor<4xf32> {init = "one"}
  func.func @first_micro_step(%x: memref<4xf32> {qwen.input = "x", qwen.offset = 0 : i64}) attributes {qwen.program} {
    %w = kernel.storage gradient [@w] : memref<4xf32>
    %v = kernel.storage gradient [@v] : memref<4xf32>
    %again = kernel.storage gradient [@w] : memref<4xf32>
    kernel.copy ins(%x : memref<4xf32>) outs(%w : memref<4xf32>)
    kernel.copy ins(%x : memref<4xf32>) outs(%v : memref<4xf32>)
    // expected-error @+1 {{'kernel.copy' op overwrites the gradient of 'w', which a launch before has used}}
    kernel.copy ins(%x : memref<4xf32>) outs(%again : memref<4xf32>)
    return
  }
}

// -----

// A gathered buffer lives until it is waited for, here to the end.
module attributes {qwen.memory = {activation = 1024 : i64}} {
  func.func @eval(%x: memref<128xf32> {qwen.input = "x", qwen.offset = 0 : i64}) attributes {qwen.program} {
    %s = kernel.storage parameter bucket [@b] : memref<64xf32>
    // expected-note @+1 {{the other allocation}}
    %a = memref.alloc() {qwen.offset = 0 : i64, qwen.slot = 0 : i64} : memref<128xf32>
    // expected-error @+1 {{'memref.alloc' op shares bytes with memory that is alive at the same launch}}
    %b = memref.alloc() {qwen.offset = 0 : i64, qwen.slot = 1 : i64} : memref<128xf32>
    kernel.all_gather ins(%s : memref<64xf32>) outs(%a : memref<128xf32>) {qwen.stream = 1 : i64}
    kernel.copy ins(%x : memref<128xf32>) outs(%b : memref<128xf32>)
    return
  }
}

// -----

module attributes {qwen.memory = {activation = 1024 : i64}} {
  func.func @micro_step(%y: memref<128xf32> {qwen.output = "y", qwen.offset = 0 : i64}) attributes {qwen.program} {
    %s = kernel.storage gradient bucket [@b] : memref<64xf32>
    %a = memref.alloc() {qwen.offset = 0 : i64, qwen.slot = 0 : i64} : memref<128xf32>
    kernel.fill outs(%a : memref<128xf32>) {value = 1.0 : f64}
    kernel.reduce_scatter ins(%a : memref<128xf32>) outs(%s : memref<64xf32>) {qwen.stream = 1 : i64, qwen.waits = array<i64: 0>}
    // expected-error @+1 {{'kernel.copy' op touches memory that a scatter has destroyed}}
    kernel.copy ins(%a : memref<128xf32>) outs(%y : memref<128xf32>) {qwen.waits = array<i64: 1>}
    return
  }
}

// -----

module attributes {qwen.memory = {activation = 1024 : i64}} {
  func.func @micro_step(%x: memref<128xf32> {qwen.input = "x", qwen.offset = 0 : i64}) attributes {qwen.program} {
    %s = kernel.storage gradient bucket [@b] : memref<64xf32>
    // expected-error @+1 {{'kernel.reduce_scatter' op destroys what is no allocation}}
    kernel.reduce_scatter ins(%x : memref<128xf32>) outs(%s : memref<64xf32>) {qwen.stream = 1 : i64}
    return
  }
}

// -----

module attributes {qwen.memory = {activation = 1024 : i64}} {
  func.func @eval() attributes {qwen.program} {
    %s = kernel.storage parameter bucket [@b] : memref<64xf32>
    %a = memref.alloc() {qwen.offset = 0 : i64, qwen.slot = 0 : i64} : memref<128xf32>
    // expected-error @+1 {{'kernel.all_gather' op is on stream 0, expected 1}}
    kernel.all_gather ins(%s : memref<64xf32>) outs(%a : memref<128xf32>)
    return
  }
}
