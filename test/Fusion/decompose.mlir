// RUN: qwen-opt %s -qwen-decompose | FileCheck %s

// bf16 in and out: arithmetic in f32, one rounding; the zero-centred norm adds 1
// to its weight.
// CHECK-LABEL: func.func @bf16
// CHECK-SAME: (%[[X:.*]]: tensor<8x64xbf16>, %[[W:.*]]: tensor<64xbf16>)
// CHECK: %[[X1:.*]] = arith.extf %[[X]]
// CHECK: %[[X2:.*]] = arith.mulf %[[X1]], %[[X1]] : tensor<8x64xf32>
// CHECK: %[[S:.*]] = qwen.reduce_sum %[[X2]] dims = [1] : tensor<8x64xf32> -> tensor<8xf32>
// CHECK: %[[N:.*]] = arith.constant dense<6.400000e+01> : tensor<8xf32>
// CHECK: %[[M:.*]] = arith.divf %[[S]], %[[N]]
// CHECK: arith.constant dense<9.99999997E-7> : tensor<8xf32>
// CHECK: %[[E:.*]] = arith.addf %[[M]]
// CHECK: %[[R:.*]] = math.rsqrt %[[E]]
// CHECK: %[[RB:.*]] = qwen.broadcast %[[R]] dims = [0] : tensor<8xf32> -> tensor<8x64xf32>
// CHECK: %[[XN:.*]] = arith.mulf %[[X1]], %[[RB]]
// CHECK: %[[WB:.*]] = qwen.broadcast %[[W]] dims = [1] : tensor<64xbf16> -> tensor<8x64xbf16>
// CHECK: %[[W1:.*]] = arith.extf %[[WB]]
// CHECK: %[[W2:.*]] = arith.addf %[[W1]]
// CHECK: %[[P:.*]] = arith.mulf %[[XN]], %[[W2]]
// CHECK: %[[Y:.*]] = arith.truncf %[[P]] : tensor<8x64xf32> to tensor<8x64xbf16>
// CHECK: return %[[Y]]
func.func @bf16(%x: tensor<8x64xbf16>, %w: tensor<64xbf16>) -> tensor<8x64xbf16> {
  %y = qwen.rms_norm %x, %w {eps = 1.0e-6 : f64, offset = 1.0 : f64} : tensor<8x64xbf16>, tensor<64xbf16> -> tensor<8x64xbf16>
  return %y : tensor<8x64xbf16>
}

// The gated norm takes its weight as it is; a wide result is not rounded.
// CHECK-LABEL: func.func @per_head
// CHECK: qwen.reduce_sum %{{.*}} dims = [2] : tensor<8x2x64xf32> -> tensor<8x2xf32>
// CHECK: qwen.broadcast %{{.*}} dims = [0, 1] : tensor<8x2xf32> -> tensor<8x2x64xf32>
// CHECK: %[[WB:.*]] = qwen.broadcast %{{.*}} dims = [2]
// CHECK: %[[W:.*]] = arith.extf %[[WB]]
// CHECK: %[[Y:.*]] = arith.mulf %{{.*}}, %[[W]]
// CHECK: return %[[Y]] : tensor<8x2x64xf32>
func.func @per_head(%x: tensor<8x2x64xbf16>, %w: tensor<64xbf16>) -> tensor<8x2x64xf32> {
  %y = qwen.rms_norm %x, %w {eps = 1.0e-6 : f64, offset = 0.0 : f64} : tensor<8x2x64xbf16>, tensor<64xbf16> -> tensor<8x2x64xf32>
  return %y : tensor<8x2x64xf32>
}

// CHECK-LABEL: func.func @f64
// CHECK-NOT: f32
// CHECK-NOT: arith.extf
func.func @f64(%x: tensor<8x64xf64>, %w: tensor<64xf64>) -> tensor<8x64xf64> {
  %y = qwen.rms_norm %x, %w {eps = 1.0e-6 : f64, offset = 1.0 : f64} : tensor<8x64xf64>, tensor<64xf64> -> tensor<8x64xf64>
  return %y : tensor<8x64xf64>
}
