// RUN: qwen-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{'plan.arena' op size must be a multiple of 64, but is 100}}
plan.arena @a input size 100

// -----

plan.arena @a input size 128
// expected-error @+1 {{'plan.buffer' op offset must be a multiple of 64, but is 32}}
%0 = plan.buffer @a[32, 64]

// -----

plan.arena @a input size 128
// expected-error @+1 {{'plan.buffer' op size must be at least 1, but is 0}}
%0 = plan.buffer @a[0, 0]

// -----

plan.arena @a input size 128
// expected-error @+1 {{'plan.buffer' op must lie inside arena @a of 128 bytes, but is 128 bytes at 64}}
%0 = plan.buffer @a[64, 128]

// -----

// expected-error @+1 {{'plan.buffer' op no arena @absent}}
%0 = plan.buffer @absent[0, 64]

// -----

plan.arena @a activation size 128
// expected-error @+1 {{'plan.buffer' op must name a program exactly where its arena holds activations, but arena @a holds activation}}
%0 = plan.buffer @a[0, 64]

// -----

plan.arena @a activation size 128
// expected-error @+1 {{'plan.buffer' op must live from an earlier step to a later one, but lives from 3 to 2}}
%0 = plan.buffer @a[0, 64] in @eval steps 3 to 2

// -----

plan.arena @a input size 128
%0 = plan.buffer @a[0, 64]
// expected-error @+1 {{'plan.view' op must lie inside its buffer of 64 bytes, but reaches from byte 32 over 64}}
%1 = plan.view %0[32] : memref<16xf32>

// -----

plan.arena @a input size 128
%0 = plan.buffer @a[0, 64]
// expected-error @+1 {{'plan.view' op must be a static memref of at most 4 dimensions with layout offset 0, but is 'memref<?xf32>'}}
%1 = plan.view %0[0] : memref<?xf32>

// -----

// expected-error @+1 {{'plan.header' op tokens, max_documents and vocab_size must be at least 1}}
plan.header target "x86-64" tokens 0 max_documents 1 vocab_size 8

// -----

// expected-error @+1 {{'plan.header' op flops of 'linear' must be two floats, but is 3 : i64}}
plan.header target "x86-64" tokens 4 max_documents 1 vocab_size 8 {flops = {linear = 3 : i64}}

// -----

plan.arena @a parameter size 128
%0 = plan.buffer @a[0, 64]
%1 = plan.view %0[0] : memref<8xf32>
// expected-error @+1 {{'plan.parameter' op init must be normal, zero, one or a_log, but is 'some'}}
plan.parameter "w" stack 0[0] init "some" value(%1 : memref<8xf32>)

// -----

plan.arena @a parameter size 128
%0 = plan.buffer @a[0, 64]
%1 = plan.view %0[0] : memref<8xf32>
%2 = plan.view %0[0] : memref<4xf32>
// expected-error @+1 {{'plan.parameter' op all its tensors must have the shape of 'memref<8xf32>', but one is 'memref<4xf32>'}}
plan.parameter "w" stack 0[0] init "zero" value(%1 : memref<8xf32>) gradient(%2 : memref<4xf32>)

// -----

plan.arena @a input size 128
%0 = plan.buffer @a[0, 64]
%1 = plan.view %0[0] : memref<8xf32>
// expected-error @+1 {{'plan.program' op must have one name for each input and output}}
plan.program @eval inputs([] %1 : memref<8xf32>) outputs([]) {
}

// -----

plan.arena @a input size 128
%0 = plan.buffer @a[0, 64]
%1 = plan.view %0[0] : memref<8xf32>
plan.program @eval inputs([]) outputs([]) {
  // expected-error @+1 {{'kernel.view' op is no launch and must not stand in a program}}
  %2 = kernel.view %1[0] : memref<8xf32> to memref<4xf32>
}

// -----

plan.arena @a parameter size 128
%0 = plan.buffer @a[0, 64]
%1 = plan.view %0[0] : memref<8xf32>
// expected-error @+1 {{'plan.bucket' op must consist of flat shards like 'memref<8xf32>', but has 20 elements}}
plan.bucket "l.f32" elements 20 value(%1 : memref<8xf32>)

// -----

// expected-error @+1 {{'plan.parameter' op must have either a value or a place in a bucket}}
plan.parameter "w" stack 0[0] init "zero"

// -----

// expected-error @+1 {{'plan.header' op world_size must be between 1 and 4096, but is 0}}
plan.header target "x86-64" tokens 4 max_documents 1 vocab_size 8 {world_size = 0 : i64}

// -----

plan.arena @p parameter size 256
plan.arena @a activation size 512
%0 = plan.buffer @p[0, 256]
%s = plan.view %0[0] : memref<64xf32>
%1 = plan.buffer @a[0, 512] in @eval steps 0 to 1
%f = plan.view %1[0] : memref<128xf32>
plan.program @eval inputs([]) outputs([]) {
  // expected-error @+1 {{'kernel.all_gather' op is on stream 0, expected 1}}
  kernel.all_gather ins(%s : memref<64xf32>) outs(%f : memref<128xf32>)
}

// -----

plan.arena @p parameter size 256
plan.arena @a activation size 512
%0 = plan.buffer @p[0, 256]
%s = plan.view %0[0] : memref<64xf32>
%1 = plan.buffer @a[0, 512] in @eval steps 0 to 1
%f = plan.view %1[0] : memref<128xf32>
plan.program @eval inputs([]) outputs([]) {
  // expected-error @+1 {{'kernel.fill' op is on stream 1, expected 0}}
  kernel.fill outs(%f : memref<128xf32>) {value = 0.0 : f64, qwen.stream = 1 : i64}
}

// -----

plan.arena @p parameter size 256
plan.arena @a activation size 512
%0 = plan.buffer @p[0, 256]
%s = plan.view %0[0] : memref<64xf32>
%1 = plan.buffer @a[0, 512] in @eval steps 0 to 1
%f = plan.view %1[0] : memref<128xf32>
plan.program @eval inputs([]) outputs([]) {
  kernel.all_gather ins(%s : memref<64xf32>) outs(%f : memref<128xf32>) {qwen.stream = 1 : i64}
  // expected-error @+1 {{'kernel.fill' op is launch 1 and waits for 1, which is no earlier one}}
  kernel.fill outs(%f : memref<128xf32>) {value = 0.0 : f64, qwen.waits = array<i64: 1>}
}

// -----

plan.arena @p parameter size 256
plan.arena @a activation size 512
%0 = plan.buffer @p[0, 256]
%s = plan.view %0[0] : memref<64xf32>
%1 = plan.buffer @a[0, 512] in @eval steps 0 to 1
%f = plan.view %1[0] : memref<128xf32>
plan.program @eval inputs([]) outputs([]) {
  kernel.fill outs(%f : memref<128xf32>) {value = 0.0 : f64}
  // expected-error @+1 {{'kernel.fill' op waits for launch 0 of its own stream}}
  kernel.fill outs(%f : memref<128xf32>) {value = 0.0 : f64, qwen.waits = array<i64: 0>}
}

// -----

plan.arena @p parameter size 256
plan.arena @a activation size 512
%0 = plan.buffer @p[0, 256]
%s = plan.view %0[0] : memref<64xf32>
%1 = plan.buffer @a[0, 512] in @eval steps 0 to 1
%f = plan.view %1[0] : memref<128xf32>
plan.program @eval inputs([]) outputs([]) {
  // expected-error @+1 {{'kernel.fill' op qwen.stream must be a number and qwen.waits an array of i64}}
  kernel.fill outs(%f : memref<128xf32>) {value = 0.0 : f64, qwen.waits = 3 : i64}
}
