//===- Passes.td - Passes of the memory stage ---------------*- tablegen -*-===//
//
// In the order in which they run. After the stage each program is one flat list
// of launches and every byte it touches has a place.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_MEMORY_PASSES
#define QWEN_MEMORY_PASSES

include "mlir/Pass/PassBase.td"

def InlineCallsPass : Pass<"qwen-inline-calls", "::mlir::ModuleOp"> {
  let summary = "Make each program one flat list of launches";
  let description = [{
    Layers of one kind share a function until here, so that the stages before
    run once a kind. Memory is planned over a whole program, so its calls are
    replaced by copies of the callee's body, and functions that are no program
    go. Each copied launch carries `qwen.call`, the number of its call,
    `qwen.callee`, and `qwen.label`: the common prefix of the parameter names
    that the call got, such as `model.layers.3`, and the callee. A callee that
    is a copy goes by the name in its `qwen.specializes`.

    Input:
    ```mlir
    func.func private @f(%x: memref<4xf32>, %y: memref<4xf32>) {
      kernel.copy ins(%x : memref<4xf32>) outs(%y : memref<4xf32>)
      return
    }
    func.func @eval(%x: memref<4xf32> {qwen.input = "x"}, %y: memref<4xf32> {qwen.output = "y"}) attributes {qwen.program} {
      func.call @f(%x, %y) : (memref<4xf32>, memref<4xf32>) -> ()
      return
    }
    ```
    Output:
    ```mlir
    func.func @eval(%x: …, %y: …) attributes {qwen.program} {
      kernel.copy ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {qwen.call = 0 : i64, qwen.callee = "f", qwen.label = "f"}
      return
    }
    ```
  }];
  let statistics = [
    Statistic<"numCalls", "calls-inlined", "Calls replaced by their body">];
}

def RecomputePass : Pass<"qwen-recompute", "::mlir::ModuleOp"> {
  let summary = "Recompute values of the forward pass in the backward pass";
  let description = [{
    A residual is a value that call `X_forward` makes and only call
    `X_backward` of the same layer reads later. Instead of holding it, the
    backward pass can make it again from what it has: the launches that wrote it
    are copied before its first reader. They are deterministic, so no policy
    changes a bit of any result. Values between layers always stay.

    Policies:
    - `none`: every residual is held.
    - `cheap`: those that groups, convolutions, copies and the like make are
      made again, where that needs nothing that would not be held anyway. GEMM,
      attention and gated-delta results are held.
    - `full`: all are made again; a layer holds its input only.

    Input (policy `cheap`):
    ```mlir
    kernel.group @g ins(%x : …) outs(%h : …) {qwen.callee = "l_forward", …}
    …
    kernel.gemm ins(%dy, %h : …) outs(%dw : …) {qwen.callee = "l_backward", …}
    ```
    Output:
    ```mlir
    kernel.group @g ins(%x : …) outs(%h : …) {qwen.callee = "l_forward", …}
    …
    %h2 = memref.alloc() : …
    kernel.group @g ins(%x : …) outs(%h2 : …) {qwen.callee = "l_backward", …}
    kernel.gemm ins(%dy, %h2 : …) outs(%dw : …) {qwen.callee = "l_backward", …}
    ```
  }];
  let options = [
    Option<"policy", "policy", "std::string", "\"none\"",
           "none, cheap or full">];
  let dependentDialects = ["::mlir::memref::MemRefDialect"];
  let statistics = [
    Statistic<"numLaunches", "launches-added", "Launches copied">];
}

def AssignStreamsPass : Pass<"qwen-assign-streams", "::mlir::ModuleOp"> {
  let summary = "Put collectives on a stream of their own";
  let description = [{
    Launches of stream 0 compute, those of stream 1 are the collectives; each
    stream keeps the order of the program. A launch starts when the launches that
    its `qwen.waits` name are done, and with them those before on their stream:
    - A collective waits for the launch of stream 0 that stands before it. Where
      it stands is thereby when it starts.
    - A launch of stream 0 waits for the latest collective that writes what it
      reads, or touches what it writes.
    - The first launch that writes a unit's gradients, which are joined in memory
      of their own, waits for the scatters of the last unit but one, so that no
      more than two units' memory is in use.
    A wait for what is known to be done is left out. Memory is reused without
    any further wait: see `qwen-assign-offsets`.

    Runs when all launches have their place, as waits count launches. A program
    without collectives stays as it is.

    Input:
    ```mlir
    kernel.copy ins(%x : …) outs(%a : …)
    kernel.all_gather ins(%s : memref<64xf32>) outs(%w : memref<128xf32>)
    kernel.copy ins(%a : …) outs(%b : …)
    kernel.copy ins(%w : …) outs(%c : …)
    ```
    Output:
    ```mlir
    kernel.copy ins(%x : …) outs(%a : …)
    kernel.all_gather ins(%s : memref<64xf32>) outs(%w : memref<128xf32>) {qwen.stream = 1 : i64, qwen.waits = array<i64: 0>}
    kernel.copy ins(%a : …) outs(%b : …)
    kernel.copy ins(%w : …) outs(%c : …) {qwen.waits = array<i64: 1>}
    ```
    Remarks say of each collective what waits for it and what hides it.
  }];
  let options = [
    Option<"remarks", "remarks", "bool", "false",
           "Report what hides each collective">];
  let statistics = [Statistic<"numWaits", "waits", "Waits of launches">];
}

def AssignOffsetsPass : Pass<"qwen-assign-offsets", "::mlir::ModuleOp"> {
  let summary = "Give every buffer its place";
  let description = [{
    Allocations of a program live from their first to their last launch; those
    that a collective touches, to the first launch of stream 0 that starts when
    it is known to be done, or to the end of the program. What is placed there
    later is thereby touched later, on whatever stream. An output takes over the
    memory of an input that dies at the launch, where the kernel allows it. The others are placed largest first, each in the smallest
    gap between those that live at the same time; programs share the arena.

    Persistent memory (parameters, gradients, moments, masters) is laid out in
    the order of the parameters; those that a `kernel.storage` names together
    lie one after the other without a gap. Inputs of one name are one buffer for
    all programs.

    Results are attributes, sizes in bytes: `qwen.offset` and `qwen.slot` (equal
    for allocations that share memory) on `memref.alloc`; `qwen.offset` on
    arguments of programs; `qwen.place` on `qwen.parameter` with the offset in
    each class; `qwen.memory` on the module with the size of each class.

    Input:
    ```mlir
    %a = memref.alloc() : memref<4x8xf32>
    kernel.copy ins(%x : memref<4x8xf32>) outs(%a : memref<4x8xf32>)
    ```
    Output:
    ```mlir
    %a = memref.alloc() {qwen.offset = 0 : i64, qwen.slot = 0 : i64} : memref<4x8xf32>
    kernel.copy ins(%x : memref<4x8xf32>) outs(%a : memref<4x8xf32>)
    ```
    `reuse = false` gives every allocation its own memory, for finding bugs.
  }];
  let options = [
    Option<"reuse", "reuse", "bool", "true",
           "reuse memory of dead values, also in place">,
    Option<"target", "target", "std::string", "\"x86-64-v3\"",
           "what the plan runs on; kernels need other scratch on others">];
  let statistics = [
    Statistic<"numInPlace", "in-place", "Outputs that took over an input">,
    Statistic<"lostBytes", "lost-bytes",
              "Arena bytes above the most that live at once">];
}

def VerifyMemoryPass : Pass<"verify-memory", "::mlir::ModuleOp"> {
  let summary = "Check what the memory stage promises";
  let description = [{
    Programs hold launches, views, storages and allocations only; every
    allocation has a place of 64-byte alignment inside the arena; no two
    allocations that live at the same launch share a byte, but for in-place
    hand-over; nothing is read, or added to, before it is written, or after a
    scatter has destroyed it; a launch that overwrites a gradient is the first of
    its program that touches it. Collectives alone are on stream 1, and waits
    name earlier launches of the other stream.

    Two allocations that live together in the same bytes:
    ```mlir
    %a = memref.alloc() {qwen.offset = 0 : i64, qwen.slot = 0 : i64} : memref<4xf32>
    // error: 'memref.alloc' op shares bytes with memory that is alive at the same launch
    %b = memref.alloc() {qwen.offset = 0 : i64, qwen.slot = 1 : i64} : memref<4xf32>
    kernel.copy ins(%x : memref<4xf32>) outs(%a : memref<4xf32>)
    kernel.copy ins(%a : memref<4xf32>) outs(%b : memref<4xf32>)
    ```
  }];
}

#endif // QWEN_MEMORY_PASSES
