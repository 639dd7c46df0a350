// What a fused group may not be.
// RUN: qwen-opt %s -split-input-file -verify-diagnostics

func.func @foreign_op(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) {
  %y = qwen.group(%a = %x : tensor<8x4xf32>, %b = %w : tensor<4x4xf32>) domain = [8, 4] -> tensor<8x4xf32> {
    // expected-error @+1 {{'qwen.linear' op is not allowed in a group: only elementwise arith and math ops, constants, qwen.sigmoid, softplus, broadcast, rope and reduce_sum are}}
    %0 = qwen.linear %a, %b : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    qwen.yield %0 : tensor<8x4xf32>
  }
  return
}

// -----

func.func @norm(%x: tensor<8x4xf32>, %w: tensor<4xf32>) {
  %y = qwen.group(%a = %x : tensor<8x4xf32>, %b = %w : tensor<4xf32>) domain = [8, 4] -> tensor<8x4xf32> {
    // expected-error @+1 {{'qwen.rms_norm' op is not allowed in a group}}
    %0 = qwen.rms_norm %a, %b {eps = 1.0e-6 : f64, offset = 1.0 : f64} : tensor<8x4xf32>, tensor<4xf32> -> tensor<8x4xf32>
    qwen.yield %0 : tensor<8x4xf32>
  }
  return
}

// -----

func.func @column_sum_used(%x: tensor<8x4xf32>) {
  %y = qwen.group(%a = %x : tensor<8x4xf32>) domain = [8, 4] -> tensor<4xf32> {
    // expected-error @+1 {{'qwen.reduce_sum' op is a column sum and may only be a result of the group}}
    %0 = qwen.reduce_sum %a dims = [0] : tensor<8x4xf32> -> tensor<4xf32>
    // expected-note @+1 {{used here}}
    %1 = qwen.sigmoid %0 : tensor<4xf32>
    qwen.yield %1 : tensor<4xf32>
  }
  return
}

// -----

func.func @middle_sum(%x: tensor<8x2x4xf32>) {
  %y = qwen.group(%a = %x : tensor<8x2x4xf32>) domain = [8, 2, 4] -> tensor<8x4xf32> {
    // expected-error @+1 {{'qwen.reduce_sum' op in a group must sum over the last dimension (a row sum) or over all leading ones (a column sum), but sums over [1] of 'tensor<8x2x4xf32>'}}
    %0 = qwen.reduce_sum %a dims = [1] : tensor<8x2x4xf32> -> tensor<8x4xf32>
    qwen.yield %0 : tensor<8x4xf32>
  }
  return
}

// -----

func.func @yield_types(%x: tensor<8x4xf32>) {
  %y = qwen.group(%a = %x : tensor<8x4xf32>) domain = [8, 4] -> tensor<8x5xf32> {
    // expected-error @+1 {{'qwen.yield' op must yield the group's results ('tensor<8x5xf32>'), but yields ('tensor<8x4xf32>')}}
    qwen.yield %a : tensor<8x4xf32>
  }
  return
}

// -----

func.func @domain_rank(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{'qwen.group' op domain must have 1 to 3 dimensions, but has 4}}
  %y = qwen.group(%a = %x : tensor<8x4xf32>) domain = [2, 2, 2, 4] -> tensor<8x4xf32> {
    qwen.yield %a : tensor<8x4xf32>
  }
  return
}

// -----

func.func @domain_size(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{'qwen.group' op domain must have dimensions between 1 and 2147483647, but is [0, 4]}}
  %y = qwen.group(%a = %x : tensor<8x4xf32>) domain = [0, 4] -> tensor<8x4xf32> {
    qwen.yield %a : tensor<8x4xf32>
  }
  return
}

// -----

func.func @no_result(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{'qwen.group' op must have at least one result}}
  qwen.group(%a = %x : tensor<8x4xf32>) domain = [8, 4] {
    qwen.yield
  }
  return
}

// -----

func.func @arguments(%x: tensor<8x4xf32>) {
  // expected-error @+1 {{'qwen.group' op must have one block argument of the same type for each of its 1 inputs}}
  %y = "qwen.group"(%x) <{domain = array<i64: 8, 4>}> ({
  ^bb0(%a: tensor<8x5xf32>):
    "qwen.yield"(%a) : (tensor<8x5xf32>) -> ()
  }) : (tensor<8x4xf32>) -> tensor<8x5xf32>
  return
}

// -----

func.func @captures(%x: tensor<8x4xf32>) {
  // expected-note @+1 {{required by region isolation constraints}}
  %y = qwen.group(%a = %x : tensor<8x4xf32>) domain = [8, 4] -> tensor<8x4xf32> {
    // expected-error @+1 {{'arith.addf' op using value defined outside the region}}
    %0 = arith.addf %a, %x : tensor<8x4xf32>
    qwen.yield %0 : tensor<8x4xf32>
  }
  return
}
