// RUN: qwen-opt %s --qwen-autodiff | FileCheck %s

qwen.parameter @embed : tensor<16x4xbf16> {init = "normal"}
qwen.parameter @wide : tensor<8x4xbf16> {init = "normal"}
qwen.parameter @out : tensor<4x4xbf16> {init = "normal"}
qwen.parameter @norm : tensor<4xbf16> {init = "zero"}

// Both pieces of the projection are needed: their common memory is saved, once,
// and cut again. The normalised value is a GEMM's operand, so it is in memory
// and saved; the f32 values in between are not.
// CHECK-LABEL: func.func private @gate_forward(
// CHECK: %[[H:.*]] = qwen.rms_norm
// CHECK: %[[Y:.*]] = qwen.linear %[[H]]
// CHECK: return %{{.*}}, %[[H]], %[[Y]] : tensor<8x4xbf16>, tensor<8x4xbf16>, tensor<8x8xbf16>
// CHECK-LABEL: func.func private @gate_backward(
// CHECK-SAME: %[[H:[a-z0-9]+]]: tensor<8x4xbf16>, %[[Y:[a-z0-9]+]]: tensor<8x8xbf16>
// CHECK: qwen.split %[[Y]] : tensor<8x8xbf16> -> tensor<8x4xbf16>, tensor<8x4xbf16>
// CHECK-NOT: qwen.linear
// CHECK: return
func.func private @gate(%x: tensor<8x4xbf16>, %n: tensor<4xbf16>, %w: tensor<8x4xbf16>) -> tensor<8x4xbf16> {
  %h = qwen.rms_norm %x, %n {eps = 1.0e-6, offset = 1.0} : tensor<8x4xbf16>, tensor<4xbf16> -> tensor<8x4xbf16>
  %y = qwen.linear %h, %w : tensor<8x4xbf16>, tensor<8x4xbf16> -> tensor<8x8xbf16>
  %p:2 = qwen.split %y : tensor<8x8xbf16> -> tensor<8x4xbf16>, tensor<8x4xbf16>
  %a = arith.extf %p#0 : tensor<8x4xbf16> to tensor<8x4xf32>
  %b = arith.extf %p#1 : tensor<8x4xbf16> to tensor<8x4xf32>
  %s = qwen.sigmoid %b : tensor<8x4xf32>
  %m = arith.mulf %a, %s : tensor<8x4xf32>
  %t = arith.truncf %m : tensor<8x4xf32> to tensor<8x4xbf16>
  return %t : tensor<8x4xbf16>
}

// The sum after the GEMM is as small as its result, and nearer: it is saved
// instead of both addends. The second norm's result is returned anyway.
// CHECK-LABEL: func.func private @residual_forward(
// CHECK: %[[Y:.*]] = qwen.linear
// CHECK: %[[SUM:.*]] = arith.truncf
// CHECK: %[[E:.*]] = math.exp
// CHECK: return %[[E]], %[[SUM]] : tensor<8x4xf32>, tensor<8x4xbf16>
// CHECK-LABEL: func.func private @residual_backward(
// CHECK-SAME: %[[E:[a-z0-9]+]]: tensor<8x4xf32>, %[[SUM:[a-z0-9]+]]: tensor<8x4xbf16>,
// CHECK-NOT: math.exp
// CHECK: return
func.func private @residual(%x: tensor<8x4xbf16>, %n: tensor<4xbf16>, %w: tensor<4x4xbf16>) -> tensor<8x4xf32> {
  %y = qwen.linear %x, %w : tensor<8x4xbf16>, tensor<4x4xbf16> -> tensor<8x4xbf16>
  %xf = arith.extf %x : tensor<8x4xbf16> to tensor<8x4xf32>
  %yf = arith.extf %y : tensor<8x4xbf16> to tensor<8x4xf32>
  %a = arith.addf %xf, %yf : tensor<8x4xf32>
  %t = arith.truncf %a : tensor<8x4xf32> to tensor<8x4xbf16>
  %r = qwen.rms_norm %t, %n {eps = 1.0e-6, offset = 1.0} : tensor<8x4xbf16>, tensor<4xbf16> -> tensor<8x4xf32>
  %e = math.exp %r : tensor<8x4xf32>
  return %e : tensor<8x4xf32>
}

func.func @forward(%tokens: tensor<8xi32> {qwen.input = "tokens"}) -> (tensor<8x4xf32> {qwen.output = "nll"}) {
  %embed = qwen.get_parameter [@embed] : tensor<16x4xbf16>
  %norm = qwen.get_parameter [@norm] : tensor<4xbf16>
  %wide = qwen.get_parameter [@wide] : tensor<8x4xbf16>
  %out = qwen.get_parameter [@out] : tensor<4x4xbf16>
  %x = qwen.embedding %embed, %tokens : tensor<16x4xbf16>, tensor<8xi32> -> tensor<8x4xbf16>
  %0 = call @gate(%x, %norm, %wide) : (tensor<8x4xbf16>, tensor<4xbf16>, tensor<8x4xbf16>) -> tensor<8x4xbf16>
  %1 = call @residual(%0, %norm, %out) : (tensor<8x4xbf16>, tensor<4xbf16>, tensor<4x4xbf16>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}
