// RUN: qwen-opt %s --qwen-optimizer | FileCheck %s
// RUN: qwen-opt %s --qwen-optimizer="masters=none moment-type=bf16 no-decay=proj,^a" | FileCheck %s --check-prefix=OPTIONS

// CHECK: qwen.parameter @a.proj : tensor<4x4xbf16> {init = "normal"}
// OPTIONS: qwen.parameter @a.proj : tensor<4x4xbf16> {decay = false, init = "normal"}
// OPTIONS: qwen.parameter @b.norm : tensor<4xbf16> {init = "zero"}
qwen.parameter @"a.proj" : tensor<4x4xbf16> {init = "normal"}
qwen.parameter @"b.norm" : tensor<4xbf16> {init = "zero", decay = false}
qwen.parameter @"c.proj" : tensor<4x4xbf16> {init = "normal"}
qwen.parameter @A_log : tensor<4xf32> {init = "a_log", decay = false}
qwen.parameter @frozen : tensor<4xf32> {init = "one"}
func.func @micro_step(%g: tensor<8x4xf32>, %n: tensor<4xf32>) attributes {qwen.program} {
  qwen.accumulate_grad [@"a.proj", @"c.proj"], %g : tensor<8x4xf32>
  qwen.accumulate_grad [@"b.norm"], %n : tensor<4xf32>
  qwen.accumulate_grad [@A_log], %n : tensor<4xf32>
  return
}

// One norm over what has a gradient; one step a class; masters for bf16 only.
// CHECK-LABEL: func.func @update(
// CHECK-SAME: %[[H:[a-z0-9]+]]: tensor<8xf32> {qwen.input = "hyper"}, %[[R:[a-z0-9]+]]: tensor<2xi32> {qwen.input = "rng"}) -> (tensor<4xf32> {qwen.output = "stats"}) attributes {qwen.program}
// CHECK: %[[S:.*]] = qwen.grad_norm %[[H]] of [@a.proj, @b.norm, @c.proj, @A_log] : tensor<8xf32> -> tensor<4xf32>
// CHECK-NEXT: qwen.adamw %[[H]], %[[S]], %[[R]] of [@a.proj, @c.proj] {decay = true, master_type = f32, moment_type = f32}
// CHECK-NEXT: qwen.adamw %[[H]], %[[S]], %[[R]] of [@b.norm] {decay = false, master_type = f32, moment_type = f32}
// CHECK-NEXT: qwen.adamw %[[H]], %[[S]], %[[R]] of [@A_log] {decay = false, moment_type = f32}
// CHECK-NEXT: return %[[S]]

// OPTIONS-LABEL: func.func @update(
// OPTIONS: qwen.adamw {{.*}} of [@a.proj, @c.proj] {decay = false, moment_type = bf16}
// OPTIONS-NEXT: qwen.adamw {{.*}} of [@b.norm] {decay = true, moment_type = bf16}
// OPTIONS-NEXT: qwen.adamw {{.*}} of [@A_log] {decay = true, moment_type = bf16}
