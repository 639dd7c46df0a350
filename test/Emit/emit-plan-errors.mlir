// RUN: qwen-opt %s -split-input-file -verify-diagnostics "-qwen-emit-plan=output=%t.fb"
// RUN: not ls %t.fb

// expected-error @+1 {{has no plan.header; run qwen-schedule first}}
module {}

// -----

// The plan verifier has the last word: both buffers live at step 1.
// expected-error @+1 {{emitted plan: buffers 0 and 1 overlap in arena 0 while both live (offsets 0 and 0, sizes 16 and 16)}}
module {
  plan.header target "x86-64" tokens 4 max_documents 1 vocab_size 8
  plan.arena @activation activation size 64
  %0 = plan.buffer @activation[0, 16] in @eval steps 0 to 1
  %1 = plan.buffer @activation[0, 16] in @eval steps 1 to 1
  %2 = plan.view %0[0] : memref<4xf32>
  %3 = plan.view %1[0] : memref<4xf32>
  plan.program @eval inputs([]) outputs([]) {
    kernel.fill outs(%2 : memref<4xf32>) {value = 1.0 : f64}
    kernel.copy ins(%2 : memref<4xf32>) outs(%3 : memref<4xf32>)
  }
}

// -----

// expected-error @+1 {{emitted plan: program 0 'eval', step 0 (Copy): operand in (view 0): reads buffer 0 where nothing has written it}}
module {
  plan.header target "x86-64" tokens 4 max_documents 1 vocab_size 8
  plan.arena @activation activation size 128
  %0 = plan.buffer @activation[0, 16] in @eval steps 0 to 0
  %1 = plan.buffer @activation[64, 16] in @eval steps 0 to 0
  %2 = plan.view %0[0] : memref<4xf32>
  %3 = plan.view %1[0] : memref<4xf32>
  plan.program @eval inputs([]) outputs([]) {
    kernel.copy ins(%2 : memref<4xf32>) outs(%3 : memref<4xf32>)
  }
}

// -----

// expected-error @+2 {{'plan.header' op names the unknown target 'sm_80'; there are x86-64, x86-64-v2, x86-64-v3, x86-64-v4 and sm_90a}}
module {
  plan.header target "sm_80" tokens 4 max_documents 1 vocab_size 8
  plan.program @eval inputs([]) outputs([]) {
  }
}
