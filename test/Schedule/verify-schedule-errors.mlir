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
