// RUN: qwen-opt %s -split-input-file -verify-diagnostics -qwen-schedule

// expected-error @+1 {{the module needs the attributes qwen.tokens, qwen.max_documents and qwen.model with vocab_size}}
module attributes {qwen.tokens = 4 : i64} {}

// -----

// expected-error @+1 {{the module has no attribute qwen.memory; run qwen-assign-offsets first}}
module attributes {qwen.tokens = 4 : i64, qwen.max_documents = 1 : i64, qwen.model = {vocab_size = 8 : i64}} {}

// -----

module attributes {qwen.tokens = 4 : i64, qwen.max_documents = 1 : i64, qwen.model = {vocab_size = 8 : i64}, qwen.memory = {}} {
  // expected-error @+1 {{'qwen.parameter' op has no place; run qwen-assign-offsets first}}
  qwen.parameter @w : tensor<8xf32> {init = "one"}
}

// -----

module attributes {qwen.tokens = 4 : i64, qwen.max_documents = 1 : i64, qwen.model = {vocab_size = 8 : i64}, qwen.memory = {}} {
  // expected-error @+1 {{'func.func' op argument #0 has no place; run qwen-assign-offsets first}}
  func.func @eval(%x: memref<8xf32> {qwen.input = "x"}) attributes {qwen.program} {
    return
  }
}

// -----

module attributes {qwen.tokens = 4 : i64, qwen.max_documents = 1 : i64, qwen.model = {vocab_size = 8 : i64}, qwen.memory = {}} {
  func.func @eval() attributes {qwen.program} {
    // expected-error @+1 {{'memref.alloc' op has no place; run qwen-assign-offsets first}}
    %a = memref.alloc() : memref<4xf32>
    return
  }
}

// -----

module attributes {qwen.tokens = 4 : i64, qwen.max_documents = 1 : i64, qwen.model = {vocab_size = 8 : i64}, qwen.memory = {}} {
  kernel.binary @code {target = "x86-64", object = ""}
  // expected-error @+1 {{'kernel.binary' op is the second one; a plan has one}}
  kernel.binary @more {target = "x86-64", object = ""}
}

// -----

module attributes {qwen.tokens = 4 : i64, qwen.max_documents = 1 : i64, qwen.model = {vocab_size = 8 : i64}, qwen.memory = {}} {
  qwen.parameter @w : tensor<8xf32> {init = "one", qwen.place = {parameter = 0 : i64, stack = 0 : i64, stack_index = 0 : i64}}
  func.func @eval() attributes {qwen.program} {
    // expected-error @+1 {{'kernel.storage' op has no place for 'w'}}
    %0 = kernel.storage gradient [@w] : memref<8xf32>
    return
  }
}
