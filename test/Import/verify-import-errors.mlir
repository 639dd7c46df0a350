// RUN: qwen-opt %s -split-input-file -verify-diagnostics -verify-import

// expected-error @+1 {{the model needs a positive integer attribute qwen.tokens}}
module attributes {qwen.max_documents = 2 : i64} {
}

// -----

// expected-error @+1 {{the model has no qwen.parameter}}
module attributes {qwen.tokens = 8 : i64, qwen.max_documents = 2 : i64} {
}

// -----

// expected-error @+1 {{the model has no function @forward}}
module attributes {qwen.tokens = 8 : i64, qwen.max_documents = 2 : i64} {
  qwen.parameter @w : tensor<16x4xf32> {init = "normal"}
}

// -----

// An op of a later stage.
module attributes {qwen.tokens = 8 : i64, qwen.max_documents = 2 : i64} {
  qwen.parameter @w : tensor<4xf32> {init = "normal"}
  func.func @f(%x: tensor<4xf32>) {
    // expected-error @+1 {{is made by the compiler and cannot be part of a model}}
    qwen.accumulate_grad [@w], %x : tensor<4xf32>
    return
  }
}

// -----

// An op of another dialect.
module attributes {qwen.tokens = 8 : i64, qwen.max_documents = 2 : i64} {
  qwen.parameter @w : tensor<4xf32> {init = "normal"}
  func.func @f() {
    // expected-error @+1 {{is not part of a model; expected qwen, arith, math and func ops}}
    %0 = memref.alloc() : memref<4xf32>
    return
  }
}

// -----

// Recursion through a second function.
module attributes {qwen.tokens = 8 : i64, qwen.max_documents = 2 : i64} {
  qwen.parameter @w : tensor<4xf32> {init = "normal"}
  // expected-error @+1 {{calls itself; a model has no recursion}}
  func.func private @f() {
    call @g() : () -> ()
    return
  }
  func.func private @g() {
    call @f() : () -> ()
    return
  }
}

// -----

// cu_seqlens has one slot too few.
module attributes {qwen.tokens = 8 : i64, qwen.max_documents = 2 : i64} {
  qwen.parameter @w : tensor<16x4xf32> {init = "normal"}
  // expected-error @+1 {{input 'cu_seqlens' has type 'tensor<2xi32>', expected tensor<3xi32>}}
  func.func @forward(%t: tensor<8xi32> {qwen.input = "tokens"}, %l: tensor<8xi32> {qwen.input = "labels"},
      %p: tensor<8xi32> {qwen.input = "positions"}, %c: tensor<2xi32> {qwen.input = "cu_seqlens"})
      -> (tensor<8xf32> {qwen.output = "nll"}) {
    %n = arith.constant dense<0.0> : tensor<8xf32>
    return %n : tensor<8xf32>
  }
}

// -----

// The same input twice.
module attributes {qwen.tokens = 8 : i64, qwen.max_documents = 2 : i64} {
  qwen.parameter @w : tensor<16x4xf32> {init = "normal"}
  // expected-error @+1 {{argument 1 needs its own qwen.input among tokens, labels, positions, cu_seqlens}}
  func.func @forward(%t: tensor<8xi32> {qwen.input = "tokens"}, %l: tensor<8xi32> {qwen.input = "tokens"},
      %p: tensor<8xi32> {qwen.input = "positions"}, %c: tensor<3xi32> {qwen.input = "cu_seqlens"})
      -> (tensor<8xf32> {qwen.output = "nll"}) {
    %n = arith.constant dense<0.0> : tensor<8xf32>
    return %n : tensor<8xf32>
  }
}

// -----

// The wrong result.
module attributes {qwen.tokens = 8 : i64, qwen.max_documents = 2 : i64} {
  qwen.parameter @w : tensor<16x4xf32> {init = "normal"}
  // expected-error @+1 {{must have one result, with qwen.output = "nll"}}
  func.func @forward(%t: tensor<8xi32> {qwen.input = "tokens"}, %l: tensor<8xi32> {qwen.input = "labels"},
      %p: tensor<8xi32> {qwen.input = "positions"}, %c: tensor<3xi32> {qwen.input = "cu_seqlens"})
      -> tensor<8xf32> {
    %n = arith.constant dense<0.0> : tensor<8xf32>
    return %n : tensor<8xf32>
  }
}

// -----

// A dynamic dimension on an op that upstream would allow it on.
module attributes {qwen.tokens = 8 : i64, qwen.max_documents = 2 : i64} {
  func.func private @f(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
    // expected-error @+1 {{'arith.addf' op operand #0 must have a static shape, but is 'tensor<?x4xf32>'}}
    %y = arith.addf %x, %x : tensor<?x4xf32>
    return %y : tensor<?x4xf32>
  }
}

// -----

// A scalar condition: no kernel holds one.
module attributes {qwen.tokens = 8 : i64, qwen.max_documents = 2 : i64} {
  func.func private @f(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
    // expected-error @+1 {{'arith.constant' op result #0 must be a tensor of f32, bf16, f64 or i32 or i1, but is 'i1'}}
    %c = arith.constant true
    %y = arith.select %c, %x, %x : tensor<8x4xf32>
    return %y : tensor<8x4xf32>
  }
}

// -----

// A dtype that upstream ops take.
module attributes {qwen.tokens = 8 : i64, qwen.max_documents = 2 : i64} {
  func.func private @f(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
    // expected-error @+1 {{'arith.truncf' op result #0 must be a tensor of f32, bf16, f64 or i32 or i1, but is 'tensor<8x4xf16>'}}
    %h = arith.truncf %x : tensor<8x4xf32> to tensor<8x4xf16>
    %y = arith.extf %h : tensor<8x4xf16> to tensor<8x4xf32>
    return %y : tensor<8x4xf32>
  }
}

// -----

// An argument that is no buffer.
module attributes {qwen.tokens = 8 : i64, qwen.max_documents = 2 : i64} {
  // expected-error @+1 {{'func.func' op argument #1 must be a tensor of f32, bf16, f64 or i32, but is 'index'}}
  func.func private @f(%x: tensor<8x4xf32>, %i: index) -> tensor<8x4xf32> {
    return %x : tensor<8x4xf32>
  }
}

// -----

// A comparison that leaves its function.
module attributes {qwen.tokens = 8 : i64, qwen.max_documents = 2 : i64} {
  // expected-error @+1 {{'func.func' op result #0 must be a tensor of f32, bf16, f64 or i32, but is 'tensor<8x4xi1>'}}
  func.func private @f(%x: tensor<8x4xf32>) -> tensor<8x4xi1> {
    %y = arith.cmpf oge, %x, %x : tensor<8x4xf32>
    return %y : tensor<8x4xi1>
  }
}

// -----

// A program that is called.
module attributes {qwen.tokens = 8 : i64, qwen.max_documents = 2 : i64} {
  qwen.parameter @w : tensor<4xf32> {init = "normal"}
  func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{calls @forward, which is public; called functions must be private}}
    %y = call @forward(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}

// -----

// More documents than 32-bit numbers count.
// expected-error @+1 {{the model needs a positive integer attribute qwen.max_documents below 2147483647}}
module attributes {qwen.tokens = 8 : i64, qwen.max_documents = 9223372036854775807 : i64} {
}

// -----

// A vocabulary that the embedding does not hold.
module attributes {qwen.tokens = 8 : i64, qwen.max_documents = 2 : i64, qwen.model = {vocab_size = 17 : i64}} {
  qwen.parameter @w : tensor<16x4xf32> {init = "normal"}
  func.func @forward(%t: tensor<8xi32> {qwen.input = "tokens"}, %l: tensor<8xi32> {qwen.input = "labels"},
      %p: tensor<8xi32> {qwen.input = "positions"}, %c: tensor<3xi32> {qwen.input = "cu_seqlens"})
      -> (tensor<8xf32> {qwen.output = "nll"}) {
    %w = qwen.get_parameter [@w] : tensor<16x4xf32>
    // expected-error @+1 {{'qwen.embedding' op has a table of 16 rows for tokens, but qwen.model says vocab_size = 17}}
    %x = qwen.embedding %w, %t : tensor<16x4xf32>, tensor<8xi32> -> tensor<8x4xf32>
    %n = qwen.linear_cross_entropy %x, %w, %l : tensor<8x4xf32>, tensor<16x4xf32>, tensor<8xi32> -> tensor<8xf32>
    return %n : tensor<8xf32>
  }
}
