//===- Passes.td - Passes of the schedule stage -------------*- tablegen -*-===//

#ifndef QWEN_SCHEDULE_PASSES
#define QWEN_SCHEDULE_PASSES

include "mlir/Pass/PassBase.td"

def SchedulePass : Pass<"qwen-schedule", "::mlir::ModuleOp"> {
  let summary = "Turn programs with places into the plan dialect";
  let description = [{
    Fixes the order of launches and spells out all memory: arenas, buffers with
    lifetimes, typed views, the parameter table. Launches keep the order of the
    program, and with it their numbers, by which `qwen.waits` name them. On one
    stream each launch ends before the next begins, so that every hazard (read
    after write, write after read, reuse of memory by in-place hand-over or by a
    later buffer) is covered by that order; between the two streams of a plan for
    several ranks the waits cover it (`qwen-assign-streams`).

    Input:
    ```mlir
    func.func @eval(%y: memref<4xf32> {qwen.output = "y", qwen.offset = 0 : i64}) attributes {qwen.program} {
      kernel.fill outs(%y : memref<4xf32>) {value = 1.0 : f64}
      return
    }
    ```
    Output:
    ```mlir
    plan.header target "x86-64" tokens 4 max_documents 1 vocab_size 8
    plan.arena @output output size 64
    %0 = plan.buffer @output[0, 64]
    %1 = plan.view %0[0] : memref<4xf32>
    plan.program @eval inputs([]) outputs(["y"] %1 : memref<4xf32>) {
      kernel.fill outs(%1 : memref<4xf32>) {value = 1.0 : f64}
    }
    ```
  }];
  let options = [
    Option<"target", "target", "std::string", "\"x86-64\"",
           "What the plan runs on, where no generated code says it">];
  let dependentDialects = ["::qwen::plan::PlanDialect"];
  let statistics = [
    Statistic<"numLaunches", "launches", "Launches of all programs">];
}

def VerifySchedulePass : Pass<"verify-schedule", "::mlir::ModuleOp"> {
  let summary = "Check what the schedule stage promises";
  let description = [{
    The module holds the plan dialect and at most one `kernel.binary`, one
    header, and at least one program. A plan for one rank has no collectives.

    What stage schedule has forgotten:
    ```mlir
    plan.header target "x86-64" tokens 4 max_documents 1 vocab_size 8
    // error: 'func.func' op must not be left after the stage schedule
    func.func private @f()
    ```
  }];
}

#endif // QWEN_SCHEDULE_PASSES
