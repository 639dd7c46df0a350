//===- Passes.td - Passes of the emit stage -----------------*- tablegen -*-===//

#ifndef QWEN_EMIT_PASSES
#define QWEN_EMIT_PASSES

include "mlir/Pass/PassBase.td"

def EmitPlanPass : Pass<"qwen-emit-plan", "::mlir::ModuleOp"> {
  let summary = "Write the plan file";
  let description = [{
    Serialises the plan dialect one to one (include/qwen/Plan/plan.fbs), reads
    the bytes back with the runtime's verifier, and publishes the file by
    rename, so that no reader ever sees a part of it. The module stays as it is.

    ```mlir
    plan.header target "x86-64" tokens 4 max_documents 1 vocab_size 8
    plan.arena @output output size 64
    %0 = plan.buffer @output[0, 64]
    %1 = plan.view %0[0] : memref<4xf32>
    plan.program @eval inputs([]) outputs(["y"] %1 : memref<4xf32>) {
      kernel.fill outs(%1 : memref<4xf32>) {value = 1.0 : f64}
    }
    ```
    gives a plan with one arena, buffer, view, and a program of one launch.
  }];
  let options = [
    Option<"output", "output", "std::string", "\"plan.fb\"", "file to write">,
    Option<"compilerVersion", "compiler-version", "std::string", "\"unknown\"",
           "recorded in the plan">,
    Option<"compilerFlags", "compiler-flags", "std::string", "\"\"",
           "recorded in the plan">];
}

#endif // QWEN_EMIT_PASSES
