// Parameters and their names.
// RUN: qwen-opt %s -split-input-file -verify-diagnostics

func.func @unknown() {
  // expected-error @+1 {{'qwen.get_parameter' op @nowhere does not name a qwen.parameter}}
  %w = qwen.get_parameter [@nowhere] : tensor<4xf32>
  return
}

// -----

func.func private @function()
func.func @not_a_parameter() {
  // expected-error @+1 {{'qwen.get_parameter' op @function does not name a qwen.parameter}}
  %w = qwen.get_parameter [@function] : tensor<4xf32>
  return
}

// -----

func.func @none() {
  // expected-error @+1 {{'qwen.get_parameter' op must name at least one parameter}}
  %w = qwen.get_parameter [] : tensor<4xf32>
  return
}

// -----

qwen.parameter @w : tensor<6x4xf32> {init = "zero"}
func.func @other_shape() {
  // expected-error @+1 {{'qwen.get_parameter' op value must be 'tensor<6x4xf32>', but is 'tensor<4x6xf32>'}}
  %w = qwen.get_parameter [@w] : tensor<4x6xf32>
  return
}

// -----

qwen.parameter @a : tensor<6x4xf32> {init = "zero"}
qwen.parameter @b : tensor<6x5xf32> {init = "zero"}
func.func @stack_columns() {
  // expected-error @+1 {{'qwen.get_parameter' op stacks parameters that differ in more than their rows: @a is 'tensor<6x4xf32>', but @b is 'tensor<6x5xf32>'}}
  %w = qwen.get_parameter [@a, @b] : tensor<12x4xf32>
  return
}

// -----

qwen.parameter @a : tensor<6x4xf32> {init = "zero"}
qwen.parameter @b : tensor<6x4xbf16> {init = "zero"}
func.func @stack_dtypes() {
  // expected-error @+1 {{'qwen.get_parameter' op stacks parameters that differ in more than their rows: @a is 'tensor<6x4xf32>', but @b is 'tensor<6x4xbf16>'}}
  %w = qwen.get_parameter [@a, @b] : tensor<12x4xf32>
  return
}

// -----

qwen.parameter @w : tensor<6x4xf64> {init = "zero"}
func.func @gradient(%g: tensor<6x4xf32>) {
  // expected-error @+1 {{'qwen.accumulate_grad' op grad must be 'tensor<6x4xf64>', but is 'tensor<6x4xf32>'}}
  qwen.accumulate_grad [@w], %g : tensor<6x4xf32>
  return
}

// -----

// expected-error @+1 {{'qwen.parameter' op init must be "normal", "zero", "one" or "a_log", but is "xavier"}}
qwen.parameter @w : tensor<6x4xf32> {init = "xavier"}

// -----

// expected-error @+1 {{'qwen.parameter' op std must be a finite number of at least 0, but is -1.0}}
qwen.parameter @w : tensor<6x4xf32> {init = "normal", std = -1.0 : f64}

// -----

// expected-error @+1 {{'qwen.parameter' op std is for init = "normal", but init is "zero"}}
qwen.parameter @w : tensor<6x4xf32> {init = "zero", std = 0.5 : f64}

// -----

// expected-error @+1 {{'qwen.parameter' op must have a name}}
qwen.parameter @"" : tensor<6x4xf32> {init = "zero"}

// -----

// expected-error @+1 {{'qwen.parameter' op requires attribute 'init'}}
qwen.parameter @w : tensor<6x4xf32>

// -----

// expected-error @+1 {{'qwen.parameter' op attribute 'type' failed to satisfy constraint}}
qwen.parameter @w : tensor<6x4xi8> {init = "zero"}

// -----

// expected-note @+1 {{see existing symbol definition here}}
qwen.parameter @w : tensor<6x4xf32> {init = "zero"}
// expected-error @+1 {{redefinition of symbol named 'w'}}
qwen.parameter @w : tensor<6x4xf32> {init = "zero"}

// -----

qwen.parameter @w : tensor<6x4xf32> {init = "zero"}
func.func @grad_norm(%hyper: tensor<7xf32>) {
  // expected-error @+1 {{'qwen.grad_norm' op hyper must be 'tensor<8xf32>', but is 'tensor<7xf32>'}}
  %s = qwen.grad_norm %hyper of [@w] : tensor<7xf32> -> tensor<4xf32>
  return
}

// -----

func.func @adamw(%hyper: tensor<8xf32>, %stats: tensor<4xf32>, %rng: tensor<2xi32>) {
  // expected-error @+1 {{'qwen.adamw' op @w does not name a qwen.parameter}}
  qwen.adamw %hyper, %stats, %rng of [@w] {decay = true, moment_type = f32} : tensor<8xf32>, tensor<4xf32>, tensor<2xi32>
  return
}

// -----

qwen.parameter @w : tensor<6x4xf32> {init = "zero"}
func.func @moments(%hyper: tensor<8xf32>, %stats: tensor<4xf32>, %rng: tensor<2xi32>) {
  // expected-error @+1 {{'qwen.adamw' op moment_type must be f32, bf16 or f64, but is 'i8'}}
  qwen.adamw %hyper, %stats, %rng of [@w] {decay = true, moment_type = i8} : tensor<8xf32>, tensor<4xf32>, tensor<2xi32>
  return
}

// -----

qwen.parameter @w : tensor<6x4xf32> {init = "zero"}
// expected-error @+1 {{'qwen.bucket' op must have one offset for each of its parameters, but has 2 for 1}}
qwen.bucket @b : tensor<128xf32> {parameters = [@w], offsets = array<i64: 0, 64>}

// -----

qwen.parameter @w : tensor<6x4xf32> {init = "zero"}
// expected-error @+1 {{'qwen.bucket' op must be flat, but is 'tensor<2x64xf32>'}}
qwen.bucket @b : tensor<2x64xf32> {parameters = [@w], offsets = array<i64: 0>}

// -----

// expected-error @+1 {{'qwen.bucket' op @w does not name a qwen.parameter}}
qwen.bucket @b : tensor<128xf32> {parameters = [@w], offsets = array<i64: 0>}

// -----

qwen.parameter @w : tensor<6x4xbf16> {init = "zero"}
// expected-error @+1 {{'qwen.bucket' op has elements of 'f32', but @w is 'tensor<6x4xbf16>'}}
qwen.bucket @b : tensor<128xf32> {parameters = [@w], offsets = array<i64: 0>}

// -----

qwen.parameter @w : tensor<6x4xf32> {init = "zero"}
qwen.parameter @v : tensor<4xf32> {init = "zero"}
// expected-error @+1 {{'qwen.bucket' op offset of @v must be 24 or a later multiple of 64, but is 32}}
qwen.bucket @b : tensor<128xf32> {parameters = [@w, @v], offsets = array<i64: 0, 32>}

// -----

qwen.parameter @w : tensor<6x4xf32> {init = "zero"}
// expected-error @+1 {{'qwen.bucket' op must hold @w up to element 24, but has 16}}
qwen.bucket @b : tensor<16xf32> {parameters = [@w], offsets = array<i64: 0>}

// -----

func.func @gather() {
  // expected-error @+1 {{'qwen.all_gather' op @b does not name a qwen.bucket}}
  %0 = qwen.all_gather @b : tensor<128xf32>
  return
}

// -----

qwen.parameter @w : tensor<6x4xbf16> {init = "zero"}
qwen.bucket @b : tensor<128xbf16> {parameters = [@w], offsets = array<i64: 0>}
func.func @scatter(%g: tensor<64xf32>) {
  // expected-error @+1 {{'qwen.reduce_scatter' op flat must be 'tensor<128xf32>', but is 'tensor<64xf32>'}}
  qwen.reduce_scatter @b, %g : tensor<64xf32>
  return
}

// -----

func.func @part(%flat: tensor<128xf32>) {
  // expected-error @+1 {{'qwen.bucket_part' op must lie inside flat, 'tensor<128xf32>', but has 32 elements from 100 on}}
  %0 = qwen.bucket_part %flat[100] [@w] : tensor<128xf32> -> tensor<4x8xf32>
  return
}

// -----

qwen.parameter @w : tensor<6x4xf32> {init = "zero"}
// expected-error @+1 {{'qwen.bucket' op gradient_type must be f32 or bf16, but is 'f64'}}
qwen.bucket @b : tensor<128xf32> {parameters = [@w], offsets = array<i64: 0>, gradient_type = f64}

// -----

qwen.parameter @w : tensor<6x4xf64> {init = "zero"}
// expected-error @+1 {{'qwen.bucket' op gradient_type must be f64, but is 'bf16'}}
qwen.bucket @b : tensor<128xf64> {parameters = [@w], offsets = array<i64: 0>, gradient_type = bf16}

// -----

func.func @lookup(%ids: tensor<3xi32>) {
  // expected-error @+1 {{'qwen.sharded_embedding' op @b does not name a qwen.bucket}}
  %0 = qwen.sharded_embedding @b[@w], %ids : tensor<3xi32> -> tensor<3x4xf32>
  return
}

// -----

qwen.parameter @w : tensor<6x4xf32> {init = "zero"}
qwen.parameter @v : tensor<6x4xf32> {init = "zero"}
qwen.bucket @b : tensor<128xf32> {parameters = [@w], offsets = array<i64: 0>}
func.func @lookup(%ids: tensor<3xi32>) {
  // expected-error @+1 {{'qwen.sharded_embedding' op @b does not hold @v}}
  %0 = qwen.sharded_embedding @b[@v], %ids : tensor<3xi32> -> tensor<3x4xf32>
  return
}

// -----

qwen.parameter @w : tensor<6x4xf32> {init = "zero"}
qwen.bucket @b : tensor<128xf32> {parameters = [@w], offsets = array<i64: 0>}
func.func @lookup(%ids: tensor<3xi32>) {
  // expected-error @+1 {{'qwen.sharded_embedding' op @w is no table of rows as in 'tensor<3x5xf32>'}}
  %0 = qwen.sharded_embedding @b[@w], %ids : tensor<3xi32> -> tensor<3x5xf32>
  return
}

// -----

qwen.parameter @w : tensor<6x4xf32> {init = "zero"}
qwen.bucket @b : tensor<128xf32> {parameters = [@w], offsets = array<i64: 0>}
func.func @gradient(%dy: tensor<3x4xbf16>, %ids: tensor<3xi32>) {
  // expected-error @+1 {{'qwen.sharded_embedding_grad' op rows must have the element type of @w, 'f32', but are 'tensor<3x4xbf16>'}}
  qwen.sharded_embedding_grad @b[@w], %dy, %ids : tensor<3x4xbf16>, tensor<3xi32>
  return
}

// -----

qwen.parameter @w : tensor<6x4xf32> {init = "zero"}
qwen.bucket @b : tensor<128xf32> {parameters = [@w], offsets = array<i64: 0>}
func.func @gradient(%dy: tensor<3x4xf32>, %ids: tensor<2xi32>) {
  // expected-error @+1 {{'qwen.sharded_embedding_grad' op expected rows [T, H] of ids [T], found 'tensor<3x4xf32>' and 'tensor<2xi32>'}}
  qwen.sharded_embedding_grad @b[@w], %dy, %ids : tensor<3x4xf32>, tensor<2xi32>
  return
}
