// RUN: split-file %s %t
// RUN: not qwen-opt %t/missing.mlir --verify-autodiff 2>&1 | FileCheck %t/missing.mlir
// RUN: not qwen-opt %t/inputs.mlir --verify-autodiff 2>&1 | FileCheck %t/inputs.mlir
// RUN: cat %t/programs.mlir %t/stray.mlir > %t/all-stray.mlir
// RUN: not qwen-opt %t/all-stray.mlir --verify-autodiff 2>&1 | FileCheck %t/stray.mlir
// RUN: cat %t/programs.mlir %t/no-gradient.mlir > %t/all-no-gradient.mlir
// RUN: not qwen-opt %t/all-no-gradient.mlir --verify-autodiff 2>&1 | FileCheck %t/no-gradient.mlir
// RUN: cat %t/programs.mlir %t/not-stepped.mlir > %t/all-not-stepped.mlir
// RUN: not qwen-opt %t/all-not-stepped.mlir --verify-autodiff 2>&1 | FileCheck %t/not-stepped.mlir
// RUN: cat %t/programs.mlir %t/twice.mlir > %t/all-twice.mlir
// RUN: not qwen-opt %t/all-twice.mlir --verify-autodiff 2>&1 | FileCheck %t/twice.mlir
// RUN: cat %t/programs.mlir %t/stacks.mlir > %t/all-stacks.mlir
// RUN: not qwen-opt %t/all-stacks.mlir --verify-autodiff 2>&1 | FileCheck %t/stacks.mlir
// RUN: cat %t/added-first.mlir %t/others.mlir > %t/all-added-first.mlir
// RUN: not qwen-opt %t/all-added-first.mlir --verify-autodiff 2>&1 | FileCheck %t/added-first.mlir
// RUN: cat %t/overwritten-twice.mlir %t/others.mlir > %t/all-overwritten-twice.mlir
// RUN: not qwen-opt %t/all-overwritten-twice.mlir --verify-autodiff 2>&1 | FileCheck %t/overwritten-twice.mlir
// RUN: cat %t/not-written.mlir %t/others.mlir > %t/all-not-written.mlir
// RUN: not qwen-opt %t/all-not-written.mlir --verify-autodiff 2>&1 | FileCheck %t/not-written.mlir
// RUN: cat %t/overwritten-later.mlir %t/others.mlir > %t/all-overwritten-later.mlir
// RUN: not qwen-opt %t/all-overwritten-later.mlir --verify-autodiff 2>&1 | FileCheck %t/overwritten-later.mlir

//--- missing.mlir
// CHECK: error: expected a program '@micro_step'
module {}

//--- inputs.mlir
// CHECK: error: 'func.func' op should have an input 'labels'
func.func @micro_step(%tokens: tensor<8xi32> {qwen.input = "tokens"}) -> (tensor<8xf32> {qwen.output = "nll"}) attributes {qwen.program} {
  %0 = arith.constant dense<0.0> : tensor<8xf32>
  return %0 : tensor<8xf32>
}

//--- programs.mlir
func.func private @backward(%g: tensor<4xf32>, %s: tensor<8xf32>) {
  qwen.accumulate_grad [@w], %g : tensor<4xf32>
  qwen.accumulate_grad [@x, @y], %s : tensor<8xf32>
  return
}
func.func @micro_step(%tokens: tensor<8xi32> {qwen.input = "tokens"}, %labels: tensor<8xi32> {qwen.input = "labels"}, %positions: tensor<8xi32> {qwen.input = "positions"}, %cu: tensor<3xi32> {qwen.input = "cu_seqlens"}, %scale: tensor<f32> {qwen.input = "loss_scale"}) -> (tensor<8xf32> {qwen.output = "nll"}) attributes {qwen.program} {
  %g = arith.constant dense<0.0> : tensor<4xf32>
  %s = arith.constant dense<0.0> : tensor<8xf32>
  call @backward(%g, %s) : (tensor<4xf32>, tensor<8xf32>) -> ()
  return %s : tensor<8xf32>
}
func.func private @backward_first(%g: tensor<4xf32>, %s: tensor<8xf32>) {
  qwen.accumulate_grad [@w], %g {overwrite} : tensor<4xf32>
  qwen.accumulate_grad [@x, @y], %s {overwrite} : tensor<8xf32>
  return
}
func.func @first_micro_step(%tokens: tensor<8xi32> {qwen.input = "tokens"}, %labels: tensor<8xi32> {qwen.input = "labels"}, %positions: tensor<8xi32> {qwen.input = "positions"}, %cu: tensor<3xi32> {qwen.input = "cu_seqlens"}, %scale: tensor<f32> {qwen.input = "loss_scale"}) -> (tensor<8xf32> {qwen.output = "nll"}) attributes {qwen.program} {
  %g = arith.constant dense<0.0> : tensor<4xf32>
  %s = arith.constant dense<0.0> : tensor<8xf32>
  call @backward_first(%g, %s) : (tensor<4xf32>, tensor<8xf32>) -> ()
  call @backward(%g, %s) : (tensor<4xf32>, tensor<8xf32>) -> ()
  return %s : tensor<8xf32>
}
func.func @eval(%tokens: tensor<8xi32> {qwen.input = "tokens"}, %labels: tensor<8xi32> {qwen.input = "labels"}, %positions: tensor<8xi32> {qwen.input = "positions"}, %cu: tensor<3xi32> {qwen.input = "cu_seqlens"}) -> (tensor<8xf32> {qwen.output = "nll"}) attributes {qwen.program} {
  %0 = call @nll() : () -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

//--- stray.mlir
// A gradient accumulated by what @eval runs.
// CHECK: error: 'qwen.accumulate_grad' op accumulates a gradient outside of @micro_step and @first_micro_step
qwen.parameter @w : tensor<4xf32> {init = "one"}
qwen.parameter @x : tensor<4xf32> {init = "one"}
qwen.parameter @y : tensor<4xf32> {init = "one"}
func.func private @nll() -> tensor<8xf32> {
  %0 = arith.constant dense<0.0> : tensor<8xf32>
  %1 = arith.constant dense<0.0> : tensor<4xf32>
  call @backward(%1, %0) : (tensor<4xf32>, tensor<8xf32>) -> ()
  return %0 : tensor<8xf32>
}
func.func @update(%hyper: tensor<8xf32> {qwen.input = "hyper"}, %rng: tensor<2xi32> {qwen.input = "rng"}) -> (tensor<4xf32> {qwen.output = "stats"}) attributes {qwen.program} {
  %stats = qwen.grad_norm %hyper of [@w, @x, @y] : tensor<8xf32> -> tensor<4xf32>
  qwen.adamw %hyper, %stats, %rng of [@w, @x, @y] {decay = true, moment_type = f32} : tensor<8xf32>, tensor<4xf32>, tensor<2xi32>
  return %stats : tensor<4xf32>
}

//--- no-gradient.mlir
// CHECK: error: parameter '@z' is stepped by @update but has no gradient
qwen.parameter @w : tensor<4xf32> {init = "one"}
qwen.parameter @x : tensor<4xf32> {init = "one"}
qwen.parameter @y : tensor<4xf32> {init = "one"}
qwen.parameter @z : tensor<4xf32> {init = "one"}
func.func private @nll() -> tensor<8xf32> {
  %0 = arith.constant dense<0.0> : tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @update(%hyper: tensor<8xf32> {qwen.input = "hyper"}, %rng: tensor<2xi32> {qwen.input = "rng"}) -> (tensor<4xf32> {qwen.output = "stats"}) attributes {qwen.program} {
  %stats = qwen.grad_norm %hyper of [@w, @x, @y] : tensor<8xf32> -> tensor<4xf32>
  qwen.adamw %hyper, %stats, %rng of [@w, @x, @y, @z] {decay = true, moment_type = f32} : tensor<8xf32>, tensor<4xf32>, tensor<2xi32>
  return %stats : tensor<4xf32>
}

//--- not-stepped.mlir
// CHECK: error: parameter '@w' has a gradient but is not stepped by @update
qwen.parameter @w : tensor<4xf32> {init = "one"}
qwen.parameter @x : tensor<4xf32> {init = "one"}
qwen.parameter @y : tensor<4xf32> {init = "one"}
func.func private @nll() -> tensor<8xf32> {
  %0 = arith.constant dense<0.0> : tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @update(%hyper: tensor<8xf32> {qwen.input = "hyper"}, %rng: tensor<2xi32> {qwen.input = "rng"}) -> (tensor<4xf32> {qwen.output = "stats"}) attributes {qwen.program} {
  %stats = qwen.grad_norm %hyper of [@w, @x, @y] : tensor<8xf32> -> tensor<4xf32>
  qwen.adamw %hyper, %stats, %rng of [@x, @y] {decay = true, moment_type = f32} : tensor<8xf32>, tensor<4xf32>, tensor<2xi32>
  return %stats : tensor<4xf32>
}

//--- twice.mlir
// CHECK: error: 'qwen.adamw' op steps parameter '@x', which another one steps
qwen.parameter @w : tensor<4xf32> {init = "one"}
qwen.parameter @x : tensor<4xf32> {init = "one"}
qwen.parameter @y : tensor<4xf32> {init = "one"}
func.func private @nll() -> tensor<8xf32> {
  %0 = arith.constant dense<0.0> : tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @update(%hyper: tensor<8xf32> {qwen.input = "hyper"}, %rng: tensor<2xi32> {qwen.input = "rng"}) -> (tensor<4xf32> {qwen.output = "stats"}) attributes {qwen.program} {
  %stats = qwen.grad_norm %hyper of [@w, @x, @y] : tensor<8xf32> -> tensor<4xf32>
  qwen.adamw %hyper, %stats, %rng of [@w, @x, @y] {decay = true, moment_type = f32} : tensor<8xf32>, tensor<4xf32>, tensor<2xi32>
  qwen.adamw %hyper, %stats, %rng of [@x] {decay = false, moment_type = f32} : tensor<8xf32>, tensor<4xf32>, tensor<2xi32>
  return %stats : tensor<4xf32>
}

//--- stacks.mlir
// CHECK: error: 'qwen.get_parameter' op uses parameter @x in stack [@x], but elsewhere it is in [@x, @y]
qwen.parameter @w : tensor<4xf32> {init = "one"}
qwen.parameter @x : tensor<4xf32> {init = "one"}
qwen.parameter @y : tensor<4xf32> {init = "one"}
func.func private @nll() -> tensor<8xf32> {
  %0 = arith.constant dense<0.0> : tensor<8xf32>
  %1 = qwen.get_parameter [@x] : tensor<4xf32>
  return %0 : tensor<8xf32>
}
func.func @update(%hyper: tensor<8xf32> {qwen.input = "hyper"}, %rng: tensor<2xi32> {qwen.input = "rng"}) -> (tensor<4xf32> {qwen.output = "stats"}) attributes {qwen.program} {
  %stats = qwen.grad_norm %hyper of [@w, @x, @y] : tensor<8xf32> -> tensor<4xf32>
  qwen.adamw %hyper, %stats, %rng of [@w, @x, @y] {decay = true, moment_type = f32} : tensor<8xf32>, tensor<4xf32>, tensor<2xi32>
  return %stats : tensor<4xf32>
}

//--- added-first.mlir
// CHECK: error: 'qwen.accumulate_grad' op adds to the gradient of @w, which @first_micro_step has not written before
func.func @first_micro_step(%tokens: tensor<8xi32> {qwen.input = "tokens"}, %labels: tensor<8xi32> {qwen.input = "labels"}, %positions: tensor<8xi32> {qwen.input = "positions"}, %cu: tensor<3xi32> {qwen.input = "cu_seqlens"}, %scale: tensor<f32> {qwen.input = "loss_scale"}) -> (tensor<8xf32> {qwen.output = "nll"}) attributes {qwen.program} {
  %0 = arith.constant dense<0.0> : tensor<8xf32>
  %g = arith.constant dense<0.0> : tensor<4xf32>
  qwen.accumulate_grad [@w], %g : tensor<4xf32>
  qwen.accumulate_grad [@w], %g {overwrite} : tensor<4xf32>
  return %0 : tensor<8xf32>
}
func.func @micro_step(%tokens: tensor<8xi32> {qwen.input = "tokens"}, %labels: tensor<8xi32> {qwen.input = "labels"}, %positions: tensor<8xi32> {qwen.input = "positions"}, %cu: tensor<3xi32> {qwen.input = "cu_seqlens"}, %scale: tensor<f32> {qwen.input = "loss_scale"}) -> (tensor<8xf32> {qwen.output = "nll"}) attributes {qwen.program} {
  %0 = arith.constant dense<0.0> : tensor<8xf32>
  %g = arith.constant dense<0.0> : tensor<4xf32>
  qwen.accumulate_grad [@w], %g : tensor<4xf32>
  return %0 : tensor<8xf32>
}

//--- overwritten-twice.mlir
// CHECK: error: 'qwen.accumulate_grad' op overwrites the gradient of @w, which @first_micro_step has written before
func.func @first_micro_step(%tokens: tensor<8xi32> {qwen.input = "tokens"}, %labels: tensor<8xi32> {qwen.input = "labels"}, %positions: tensor<8xi32> {qwen.input = "positions"}, %cu: tensor<3xi32> {qwen.input = "cu_seqlens"}, %scale: tensor<f32> {qwen.input = "loss_scale"}) -> (tensor<8xf32> {qwen.output = "nll"}) attributes {qwen.program} {
  %0 = arith.constant dense<0.0> : tensor<8xf32>
  %g = arith.constant dense<0.0> : tensor<4xf32>
  qwen.accumulate_grad [@w], %g {overwrite} : tensor<4xf32>
  qwen.accumulate_grad [@w], %g {overwrite} : tensor<4xf32>
  return %0 : tensor<8xf32>
}
func.func @micro_step(%tokens: tensor<8xi32> {qwen.input = "tokens"}, %labels: tensor<8xi32> {qwen.input = "labels"}, %positions: tensor<8xi32> {qwen.input = "positions"}, %cu: tensor<3xi32> {qwen.input = "cu_seqlens"}, %scale: tensor<f32> {qwen.input = "loss_scale"}) -> (tensor<8xf32> {qwen.output = "nll"}) attributes {qwen.program} {
  %0 = arith.constant dense<0.0> : tensor<8xf32>
  %g = arith.constant dense<0.0> : tensor<4xf32>
  qwen.accumulate_grad [@w], %g : tensor<4xf32>
  return %0 : tensor<8xf32>
}

//--- not-written.mlir
// CHECK: error: 'qwen.accumulate_grad' op adds to the gradient of @w, which @first_micro_step does not write
func.func @first_micro_step(%tokens: tensor<8xi32> {qwen.input = "tokens"}, %labels: tensor<8xi32> {qwen.input = "labels"}, %positions: tensor<8xi32> {qwen.input = "positions"}, %cu: tensor<3xi32> {qwen.input = "cu_seqlens"}, %scale: tensor<f32> {qwen.input = "loss_scale"}) -> (tensor<8xf32> {qwen.output = "nll"}) attributes {qwen.program} {
  %0 = arith.constant dense<0.0> : tensor<8xf32>
  %g = arith.constant dense<0.0> : tensor<4xf32>
  return %0 : tensor<8xf32>
}
func.func @micro_step(%tokens: tensor<8xi32> {qwen.input = "tokens"}, %labels: tensor<8xi32> {qwen.input = "labels"}, %positions: tensor<8xi32> {qwen.input = "positions"}, %cu: tensor<3xi32> {qwen.input = "cu_seqlens"}, %scale: tensor<f32> {qwen.input = "loss_scale"}) -> (tensor<8xf32> {qwen.output = "nll"}) attributes {qwen.program} {
  %0 = arith.constant dense<0.0> : tensor<8xf32>
  %g = arith.constant dense<0.0> : tensor<4xf32>
  qwen.accumulate_grad [@w], %g : tensor<4xf32>
  return %0 : tensor<8xf32>
}

//--- overwritten-later.mlir
// CHECK: error: 'qwen.accumulate_grad' op overwrites a gradient in @micro_step, which should add to it
func.func @first_micro_step(%tokens: tensor<8xi32> {qwen.input = "tokens"}, %labels: tensor<8xi32> {qwen.input = "labels"}, %positions: tensor<8xi32> {qwen.input = "positions"}, %cu: tensor<3xi32> {qwen.input = "cu_seqlens"}, %scale: tensor<f32> {qwen.input = "loss_scale"}) -> (tensor<8xf32> {qwen.output = "nll"}) attributes {qwen.program} {
  %0 = arith.constant dense<0.0> : tensor<8xf32>
  %g = arith.constant dense<0.0> : tensor<4xf32>
  qwen.accumulate_grad [@w], %g {overwrite} : tensor<4xf32>
  return %0 : tensor<8xf32>
}
func.func @micro_step(%tokens: tensor<8xi32> {qwen.input = "tokens"}, %labels: tensor<8xi32> {qwen.input = "labels"}, %positions: tensor<8xi32> {qwen.input = "positions"}, %cu: tensor<3xi32> {qwen.input = "cu_seqlens"}, %scale: tensor<f32> {qwen.input = "loss_scale"}) -> (tensor<8xf32> {qwen.output = "nll"}) attributes {qwen.program} {
  %0 = arith.constant dense<0.0> : tensor<8xf32>
  %g = arith.constant dense<0.0> : tensor<4xf32>
  qwen.accumulate_grad [@w], %g {overwrite} : tensor<4xf32>
  return %0 : tensor<8xf32>
}

//--- others.mlir
qwen.parameter @w : tensor<4xf32> {init = "one"}
func.func @eval(%tokens: tensor<8xi32> {qwen.input = "tokens"}, %labels: tensor<8xi32> {qwen.input = "labels"}, %positions: tensor<8xi32> {qwen.input = "positions"}, %cu: tensor<3xi32> {qwen.input = "cu_seqlens"}) -> (tensor<8xf32> {qwen.output = "nll"}) attributes {qwen.program} {
  %0 = arith.constant dense<0.0> : tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @update(%hyper: tensor<8xf32> {qwen.input = "hyper"}, %rng: tensor<2xi32> {qwen.input = "rng"}) -> (tensor<4xf32> {qwen.output = "stats"}) attributes {qwen.program} {
  %stats = qwen.grad_norm %hyper of [@w] : tensor<8xf32> -> tensor<4xf32>
  qwen.adamw %hyper, %stats, %rng of [@w] {decay = true, moment_type = f32} : tensor<8xf32>, tensor<4xf32>, tensor<2xi32>
  return %stats : tensor<4xf32>
}
