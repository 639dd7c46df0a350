// RUN: qwen-opt %s --qwen-optimizer --split-input-file --verify-diagnostics
// RUN: not qwen-opt %s --qwen-optimizer=moment-type=f16 2>&1 | FileCheck %s --check-prefix=MOMENT
// RUN: not qwen-opt %s --qwen-optimizer=masters=bf16 2>&1 | FileCheck %s --check-prefix=MASTERS
// RUN: not qwen-opt %s --qwen-optimizer="no-decay=[" 2>&1 | FileCheck %s --check-prefix=REGEX
// RUN: not qwen-opt %s --qwen-optimizer=no-decay=nothing 2>&1 | FileCheck %s --check-prefix=MATCH

// MOMENT: error: option moment-type should be f32 or bf16, found 'f16'
// MASTERS: error: option masters should be f32 or none, found 'bf16'
// REGEX: error: option no-decay: '[' is not a regular expression: brackets ([ ]) not balanced
// MATCH: error: option no-decay: no parameter matches 'nothing'

// expected-error@+1 {{expected parameters with gradients to optimize, found no qwen.accumulate_grad}}
module {
}

// -----

qwen.parameter @w : tensor<4xf32> {init = "one"}
func.func @micro_step(%g: tensor<4xf32>) {
  qwen.accumulate_grad [@w], %g : tensor<4xf32>
  return
}
// expected-error@+1 {{name '@update' is reserved for a program}}
func.func @update() {
  return
}
