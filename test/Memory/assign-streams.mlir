// RUN: qwen-opt %s -qwen-assign-streams -qwen-assign-offsets -verify-memory | FileCheck %s

module attributes {qwen.world_size = 2 : i64} {

qwen.parameter @u : tensor<128xf32> {init = "one"}
qwen.parameter @v : tensor<128xf32> {init = "one"}
qwen.bucket @bu : tensor<128xf32> {parameters = [@u], offsets = array<i64: 0>}
qwen.bucket @bv : tensor<128xf32> {parameters = [@v], offsets = array<i64: 0>}

// A gather starts behind the launch before it and is waited for by its first
// reader alone; what follows knows. The second gather has nothing new to wait
// for, and waiting for it tells that the first is done.
// CHECK-LABEL: func.func @eval
func.func @eval(%x: memref<128xf32> {qwen.input = "x"}, %y: memref<128xf32> {qwen.output = "y"}) attributes {qwen.program} {
  %u = kernel.storage parameter bucket [@bu] : memref<64xf32>
  %v = kernel.storage parameter bucket [@bv] : memref<64xf32>
  // All three live when the first is read.
  // CHECK: %[[A:.*]] = memref.alloc() {qwen.offset = 0 : i64
  // CHECK: %[[FU:.*]] = memref.alloc() {qwen.offset = 512 : i64
  // CHECK: %[[FV:.*]] = memref.alloc() {qwen.offset = 1024 : i64
  %a = memref.alloc() : memref<128xf32>
  %fu = memref.alloc() : memref<128xf32>
  %fv = memref.alloc() : memref<128xf32>
  %h = kernel.view %fv[64] : memref<128xf32> to memref<64xf32>
  %low = kernel.view %y[0] : memref<128xf32> to memref<64xf32>
  // CHECK: kernel.copy {{.*}}outs(%[[A]] : memref<128xf32>){{$}}
  kernel.copy ins(%x : memref<128xf32>) outs(%a : memref<128xf32>)
  // CHECK-NEXT: kernel.all_gather {{.*}}outs(%[[FU]] : memref<128xf32>) {qwen.stream = 1 : i64, qwen.waits = array<i64: 0>}
  kernel.all_gather ins(%u : memref<64xf32>) outs(%fu : memref<128xf32>)
  // CHECK-NEXT: kernel.all_gather {{.*}}outs(%[[FV]] : memref<128xf32>) {qwen.stream = 1 : i64}
  kernel.all_gather ins(%v : memref<64xf32>) outs(%fv : memref<128xf32>)
  // CHECK-NEXT: kernel.copy ins(%[[A]] {{.*}}memref<128xf32>){{$}}
  kernel.copy ins(%a : memref<128xf32>) outs(%y : memref<128xf32>)
  // CHECK-NEXT: kernel.copy {{.*}}{qwen.waits = array<i64: 2>}
  kernel.copy ins(%h : memref<64xf32>) outs(%low : memref<64xf32>)
  // CHECK-NEXT: kernel.copy ins(%[[FU]] {{.*}}memref<128xf32>){{$}}
  kernel.copy ins(%fu : memref<128xf32>) outs(%y : memref<128xf32>)
  return
}

// The third unit's gradients wait for the scatter of the first's, not of the
// second's, and take the memory of the first's.
// CHECK-LABEL: func.func @micro_step
func.func @micro_step() attributes {qwen.program} {
  // CHECK-DAG: %[[DU:.*]] = kernel.storage gradient bucket [@bu]
  // CHECK-DAG: %[[DV:.*]] = kernel.storage gradient bucket [@bv]
  %du = kernel.storage gradient bucket [@bu] : memref<64xf32>
  %dv = kernel.storage gradient bucket [@bv] : memref<64xf32>
  // CHECK: %[[A:.*]] = memref.alloc() {qwen.offset = [[PLACE:[0-9]+]] : i64
  // CHECK: %[[B:.*]] = memref.alloc() {qwen.offset = {{[0-9]+}} : i64
  // CHECK: %[[C:.*]] = memref.alloc() {qwen.offset = [[PLACE]] : i64
  %a = memref.alloc() : memref<128xf32>
  %b = memref.alloc() : memref<128xf32>
  %c = memref.alloc() : memref<128xf32>
  %d = memref.alloc() : memref<128xf32>
  %part = kernel.view %c[0] : memref<128xf32> to memref<64xf32>
  // CHECK: kernel.fill outs(%[[A]] : memref<128xf32>) {value = 1.000000e+00 : f64}
  kernel.fill outs(%a : memref<128xf32>) {value = 1.0 : f64}
  // CHECK-NEXT: kernel.reduce_scatter {{.*}}qwen.stream = 1 : i64, qwen.waits = array<i64: 0>
  kernel.reduce_scatter ins(%a : memref<128xf32>) outs(%du : memref<64xf32>)
  // CHECK-NEXT: kernel.fill outs(%[[B]] : memref<128xf32>) {value = 2.000000e+00 : f64}
  kernel.fill outs(%b : memref<128xf32>) {value = 2.0 : f64}
  // CHECK-NEXT: kernel.reduce_scatter {{.*}}qwen.waits = array<i64: 2>
  kernel.reduce_scatter ins(%b : memref<128xf32>) outs(%dv : memref<64xf32>)
  // CHECK-NEXT: kernel.fill outs(%[[D:.*]] : memref<128xf32>) {qwen.waits = array<i64: 1>, value = 3.000000e+00 : f64}
  kernel.fill outs(%d : memref<128xf32>) {value = 3.0 : f64}
  // CHECK-NEXT: kernel.copy ins(%[[D]] {{.*}}outs(%[[C]] : memref<128xf32>){{$}}
  kernel.copy ins(%d : memref<128xf32>) outs(%c : memref<128xf32>)
  // CHECK-NEXT: kernel.reduce_scatter ins(%[[D]] {{.*}}accumulate = true, qwen.stream = 1 : i64, qwen.waits = array<i64: 5>
  kernel.reduce_scatter ins(%d : memref<128xf32>) outs(%du : memref<64xf32>) {accumulate = true}
  // A shard that is scattered to and read again is waited for.
  // CHECK-NEXT: kernel.copy {{.*}}{qwen.waits = array<i64: 6>}
  kernel.copy ins(%du : memref<64xf32>) outs(%part : memref<64xf32>)
  return
}

// Without collectives nothing changes.
// CHECK-LABEL: func.func @plain
func.func @plain(%x: memref<128xf32> {qwen.input = "x"}, %y: memref<128xf32> {qwen.output = "y"}) attributes {qwen.program} {
  // CHECK: kernel.copy {{.*}}memref<128xf32>){{$}}
  kernel.copy ins(%x : memref<128xf32>) outs(%y : memref<128xf32>)
  return
}
}
