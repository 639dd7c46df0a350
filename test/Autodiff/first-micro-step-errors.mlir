// RUN: split-file %s %t
// RUN: not qwen-opt %t/missing.mlir --qwen-first-micro-step 2>&1 | FileCheck %t/missing.mlir
// RUN: not qwen-opt %t/taken.mlir --qwen-first-micro-step 2>&1 | FileCheck %t/taken.mlir
// RUN: not qwen-opt %t/recursive.mlir --qwen-first-micro-step 2>&1 | FileCheck %t/recursive.mlir

//--- missing.mlir
// CHECK: error: expected a program '@micro_step' to make '@first_micro_step' of
module {}

//--- taken.mlir
// CHECK: error: name '@first_micro_step' is reserved for a program
func.func @micro_step() attributes {qwen.program} {
  return
}
func.func @first_micro_step() {
  return
}

//--- recursive.mlir
// CHECK: error: 'func.call' op calls '@f', which is running: recursive calls have no first contribution
qwen.parameter @w : tensor<4xf32> {init = "one"}
func.func private @f(%g: tensor<4xf32>) {
  call @g(%g) : (tensor<4xf32>) -> ()
  return
}
func.func private @g(%g: tensor<4xf32>) {
  call @f(%g) : (tensor<4xf32>) -> ()
  qwen.accumulate_grad [@w], %g : tensor<4xf32>
  return
}
func.func @micro_step(%g: tensor<4xf32> {qwen.input = "g"}) attributes {qwen.program} {
  call @f(%g) : (tensor<4xf32>) -> ()
  return
}
