// RUN: qwen-opt %s -split-input-file -verify-diagnostics -qwen-assign-streams

func.func @eval(%x: memref<4xf32> {qwen.input = "x"}, %y: memref<4xf32> {qwen.output = "y"}) attributes {qwen.program} {
  // expected-error @+1 {{'kernel.copy' op has a stream already}}
  kernel.copy ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {qwen.waits = array<i64: 0>}
  return
}
