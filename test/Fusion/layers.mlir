// The kernels of whole layers, forward and backward, as imported and
// differentiated.
// RUN: qwen-import %models/configs/tiny.json --dtype=bf16 --tokens 128 --max-documents 4 -o - \
// RUN:   | qwen-opt -qwen-merge-projections -qwen-autodiff -qwen-first-micro-step -qwen-optimizer -qwen-fuse-loss -qwen-decompose \
// RUN:       -qwen-normalize-shapes -cse -qwen-fuse-groups -verify-fusion \
// RUN:   | grep -E "func.func|qwen.group|qwen.linear |qwen.matmul|qwen.*attention|qwen.gated_delta|qwen.causal" | FileCheck %s

// Projections of one input are one product. beta and decay are one kernel.
// CHECK-LABEL: func.func private @gdn_layer_forward
// CHECK-NEXT: qwen.group{{.*}} domain = [128, 256] attributes {label = "rms_norm"}
// CHECK-NEXT: qwen.linear
// CHECK-NEXT: qwen.causal_conv1d
// CHECK-NEXT: qwen.group{{.*}} domain = [128, 8] attributes {label = "sigmoid_softplus_mul"} -> (tensor<128x8xbf16>, tensor<128x8xf32>)
// CHECK-NEXT: qwen.gated_delta
// CHECK-NEXT: qwen.group{{.*}} domain = [128, 8, 32] attributes {label = "rms_norm_silu"}
// CHECK-NEXT: qwen.linear
// CHECK-NEXT: qwen.group{{.*}} domain = [128, 256] attributes {label = "add_rms_norm"} -> (tensor<128x256xbf16>, tensor<128x256xbf16>)
// CHECK-NEXT: qwen.linear
// CHECK-NEXT: qwen.group{{.*}} domain = [128, 768] attributes {label = "silu_mul"}
// CHECK-NEXT: qwen.linear
// CHECK-NEXT: qwen.group{{.*}} domain = [128, 256] attributes {label = "add"}

// Weight gradients of norms, A_log and dt_bias are column sums of the kernels
// that make the input gradients.
// CHECK-LABEL: func.func private @gdn_layer_backward
// CHECK-NEXT: qwen.matmul
// CHECK-NEXT: qwen.matmul
// CHECK-NEXT: qwen.group{{.*}} domain = [128, 768] attributes {label = "silu_mul_backward"} -> (tensor<128x768xbf16>, tensor<128x768xbf16>)
// CHECK-NEXT: qwen.matmul
// CHECK-NEXT: qwen.matmul
// CHECK-NEXT: qwen.group{{.*}} domain = [128, 256] attributes {label = "rms_norm_backward"} -> (tensor<256xf32>, tensor<128x256xbf16>)
// CHECK-NEXT: qwen.matmul
// CHECK-NEXT: qwen.matmul
// CHECK-NEXT: qwen.group{{.*}} domain = [128, 8, 32] attributes {label = "{{.*}}_backward"} -> (tensor<128x8x32xbf16>, tensor<32xf32>, tensor<128x8x32xbf16>)
// CHECK-NEXT: qwen.gated_delta_grad
// CHECK-NEXT: qwen.causal_conv1d_grad
// CHECK-NEXT: qwen.group{{.*}} domain = [128, 8] attributes {label = "{{.*}}_backward"} -> (tensor<8xf32>, tensor<8xf32>, tensor<128x8xbf16>, tensor<128x8xbf16>)
// CHECK-NEXT: qwen.matmul
// CHECK-NEXT: qwen.matmul
// CHECK-NEXT: qwen.group{{.*}} domain = [128, 256] attributes {label = "{{.*}}rms_norm_backward"} -> (tensor<256xf32>, tensor<128x256xbf16>)

// q norm and rotation, k norm and rotation, gate: one kernel each.
// CHECK-LABEL: func.func private @attention_layer_forward
// CHECK-NEXT: qwen.group{{.*}} domain = [128, 256] attributes {label = "rms_norm"}
// CHECK-NEXT: qwen.linear
// CHECK-NEXT: qwen.group{{.*}} domain = [128, 4, 64] attributes {label = "rms_norm_rope"}
// CHECK-NEXT: qwen.group{{.*}} domain = [128, 2, 64] attributes {label = "rms_norm_rope"}
// CHECK-NEXT: qwen.attention
// CHECK-NEXT: qwen.group{{.*}} domain = [128, 4, 64] attributes {label = "sigmoid_mul"}
// CHECK-NEXT: qwen.linear
// CHECK-NEXT: qwen.group{{.*}} domain = [128, 256] attributes {label = "add_rms_norm"}
// CHECK-NEXT: qwen.linear
// CHECK-NEXT: qwen.group{{.*}} domain = [128, 768] attributes {label = "silu_mul"}
// CHECK-NEXT: qwen.linear
// CHECK-NEXT: qwen.group{{.*}} domain = [128, 256] attributes {label = "add"}

// CHECK-LABEL: func.func private @attention_layer_backward
// CHECK: qwen.group{{.*}} domain = [128, 4, 64] attributes {label = "sigmoid_mul_backward"} -> (tensor<128x4x64xbf16>, tensor<128x4x64xbf16>)
// CHECK: qwen.attention_grad
// CHECK-NEXT: qwen.group{{.*}} domain = [128, {{2|4}}, 64] attributes {label = "rope_rms_norm_backward"} -> (tensor<64xf32>, tensor<128x{{2|4}}x64xbf16>)
// CHECK-NEXT: qwen.group{{.*}} domain = [128, {{2|4}}, 64] attributes {label = "rope_rms_norm_backward"} -> (tensor<64xf32>, tensor<128x{{2|4}}x64xbf16>)
// CHECK-NEXT: qwen.matmul
// CHECK-NEXT: qwen.matmul
// CHECK-NEXT: qwen.group{{.*}} domain = [128, 256]
// CHECK-NOT: qwen.group

// The final norm's backward computes the normalised values again from x and the
// row's sum; no f32 tensor of the whole space crosses.
// CHECK-LABEL: func.func @micro_step
// CHECK-NOT: qwen.group{{.*}} -> {{.*}}tensor<128x256xf32>
// CHECK-LABEL: func.func @eval
