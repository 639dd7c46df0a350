// RUN: qwen-opt %s -split-input-file -verify-diagnostics -verify-schedule

module {
  plan.header target "x86-64" tokens 4 max_documents 1 vocab_size 8
  // expected-error @+1 {{'func.func' op must not be left after the stage schedule}}
  func.func private @f()
}

// -----

// expected-error @+1 {{a plan needs one header, at least one program and at most one binary, but has 1, 0 and 0}}
module {
  plan.header target "x86-64" tokens 4 max_documents 1 vocab_size 8
}

// -----

module {
  plan.header target "x86-64" tokens 4 max_documents 1 vocab_size 8
  plan.arena @parameter parameter size 256
  plan.arena @activation activation size 512
  %0 = plan.buffer @parameter[0, 256]
  %1 = plan.view %0[0] : memref<64xf32>
  %2 = plan.buffer @activation[0, 512] in @eval steps 0 to 0
  %3 = plan.view %2[0] : memref<128xf32>
  plan.program @eval inputs([]) outputs([]) {
    // expected-error @+1 {{'kernel.all_gather' op is for several ranks, but there is one}}
    kernel.all_gather ins(%1 : memref<64xf32>) outs(%3 : memref<128xf32>) {qwen.stream = 1 : i64}
  }
}
