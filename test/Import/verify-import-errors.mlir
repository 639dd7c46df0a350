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

// -----

// Boundaries that are not those of the pack: one document that leaks.
module attributes {qwen.tokens = 8 : i64, qwen.max_documents = 2 : i64} {
  qwen.parameter @w : tensor<16x4xf32> {init = "normal"}
  qwen.parameter @c : tensor<4x1x4xf32> {init = "normal"}
  func.func @forward(%t: tensor<8xi32> {qwen.input = "tokens"}, %l: tensor<8xi32> {qwen.input = "labels"},
      %p: tensor<8xi32> {qwen.input = "positions"}, %c: tensor<3xi32> {qwen.input = "cu_seqlens"})
      -> (tensor<8xf32> {qwen.output = "nll"}) {
    %w = qwen.get_parameter [@w] : tensor<16x4xf32>
    %k = qwen.get_parameter [@c] : tensor<4x1x4xf32>
    %x = qwen.embedding %w, %t : tensor<16x4xf32>, tensor<8xi32> -> tensor<8x4xf32>
    %b = arith.constant dense<[0, 8, 8]> : tensor<3xi32>
    // expected-error @+1 {{'qwen.causal_conv1d' op takes its document boundaries from arith.constant; expected the input cu_seqlens, handed on as it is}}
    %y = qwen.causal_conv1d %x, %k, %b : tensor<8x4xf32>, tensor<4x1x4xf32>, tensor<3xi32> -> tensor<8x4xf32>
    %n = qwen.linear_cross_entropy %y, %w, %l : tensor<8x4xf32>, tensor<16x4xf32>, tensor<8xi32> -> tensor<8xf32>
    return %n : tensor<8xf32>
  }
}

// -----

// The same, one call away.
module attributes {qwen.tokens = 8 : i64, qwen.max_documents = 2 : i64} {
  qwen.parameter @w : tensor<16x4xf32> {init = "normal"}
  qwen.parameter @c : tensor<4x1x4xf32> {init = "normal"}
  func.func private @layer(%x: tensor<8x4xf32>, %k: tensor<4x1x4xf32>, %b: tensor<3xi32>) -> tensor<8x4xf32> {
    %y = qwen.causal_conv1d %x, %k, %b : tensor<8x4xf32>, tensor<4x1x4xf32>, tensor<3xi32> -> tensor<8x4xf32>
    return %y : tensor<8x4xf32>
  }
  func.func @forward(%t: tensor<8xi32> {qwen.input = "tokens"}, %l: tensor<8xi32> {qwen.input = "labels"},
      %p: tensor<8xi32> {qwen.input = "positions"}, %c: tensor<3xi32> {qwen.input = "cu_seqlens"})
      -> (tensor<8xf32> {qwen.output = "nll"}) {
    %w = qwen.get_parameter [@w] : tensor<16x4xf32>
    %k = qwen.get_parameter [@c] : tensor<4x1x4xf32>
    %x = qwen.embedding %w, %t : tensor<16x4xf32>, tensor<8xi32> -> tensor<8x4xf32>
    %b = arith.constant dense<[0, 8, 8]> : tensor<3xi32>
    // expected-error @+1 {{'func.call' op takes its document boundaries from arith.constant}}
    %y = call @layer(%x, %k, %b) : (tensor<8x4xf32>, tensor<4x1x4xf32>, tensor<3xi32>) -> tensor<8x4xf32>
    %n = qwen.linear_cross_entropy %y, %w, %l : tensor<8x4xf32>, tensor<16x4xf32>, tensor<8xi32> -> tensor<8xf32>
    return %n : tensor<8xf32>
  }
}

// -----

// Another input of the right type: two documents and three tokens.
module attributes {qwen.tokens = 3 : i64, qwen.max_documents = 2 : i64} {
  qwen.parameter @w : tensor<16x4xf32> {init = "normal"}
  qwen.parameter @c : tensor<4x1x4xf32> {init = "normal"}
  func.func private @layer(%x: tensor<3x4xf32>, %k: tensor<4x1x4xf32>, %b: tensor<3xi32>) -> tensor<3x4xf32> {
    %y = qwen.causal_conv1d %x, %k, %b : tensor<3x4xf32>, tensor<4x1x4xf32>, tensor<3xi32> -> tensor<3x4xf32>
    return %y : tensor<3x4xf32>
  }
  // expected-error @+1 {{'func.func' op argument 2 is used as document boundaries, which must be the input cu_seqlens}}
  func.func @forward(%t: tensor<3xi32> {qwen.input = "tokens"}, %l: tensor<3xi32> {qwen.input = "labels"},
      %p: tensor<3xi32> {qwen.input = "positions"}, %c: tensor<3xi32> {qwen.input = "cu_seqlens"})
      -> (tensor<3xf32> {qwen.output = "nll"}) {
    %w = qwen.get_parameter [@w] : tensor<16x4xf32>
    %k = qwen.get_parameter [@c] : tensor<4x1x4xf32>
    %x = qwen.embedding %w, %t : tensor<16x4xf32>, tensor<3xi32> -> tensor<3x4xf32>
    %y = call @layer(%x, %k, %p) : (tensor<3x4xf32>, tensor<4x1x4xf32>, tensor<3xi32>) -> tensor<3x4xf32>
    %n = qwen.linear_cross_entropy %y, %w, %l : tensor<3x4xf32>, tensor<16x4xf32>, tensor<3xi32> -> tensor<3xf32>
    return %n : tensor<3xf32>
  }
}

// -----

// A sliding window, which no kernel has.
module attributes {qwen.tokens = 8 : i64, qwen.max_documents = 2 : i64} {
  func.func private @f(%q: tensor<8x2x4xf32>, %c: tensor<3xi32>) -> tensor<8x2x4xf32> {
    // expected-error @+1 {{'qwen.attention' op has no attribute 'sliding_window'; it has scale}}
    %o, %lse = qwen.attention %q, %q, %q, %c {scale = 0.5 : f64, sliding_window = 4 : i64}
        : tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<8x2x4xf32>, tensor<3xi32> -> tensor<8x2x4xf32>, tensor<8x2xf32>
    return %o : tensor<8x2x4xf32>
  }
}

// -----

// A frozen parameter.
module attributes {qwen.tokens = 8 : i64, qwen.max_documents = 2 : i64} {
  // expected-error @+1 {{'qwen.parameter' op has no attribute 'frozen'; it has}}
  qwen.parameter @w : tensor<16x4xf32> {init = "normal", frozen = true}
}
