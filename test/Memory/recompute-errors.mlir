// RUN: qwen-opt %s -verify-diagnostics -qwen-recompute=policy=some

// expected-error @+1 {{recompute policy must be none, cheap or full, but is 'some'}}
module {}
