//===- Passes.td - Passes of the lowering stage -------------*- tablegen -*-===//

#ifndef QWEN_LOWERING_PASSES
#define QWEN_LOWERING_PASSES

include "mlir/Pass/PassBase.td"

def LowerToKernelsPass : Pass<"qwen-lower-to-kernels", "::mlir::ModuleOp"> {
  let summary = "Turn tensor ops into kernel calls on buffers";
  let description = [{
    Every op becomes one kernel call, every value one buffer that one call
    writes:

    - functions take memrefs: their inputs, then one output a result. Buffers
      that cross a function border are contiguous;
    - a value is written straight to where it is wanted: the output of its
      function, its place in the buffer of a `qwen.concat`, the gradient storage
      of a `qwen.accumulate_grad`. Otherwise it gets a `memref.alloc`, which
      nothing frees: the memory stage assigns addresses;
    - split, reshape and concat are `kernel.view`s. Where no strides describe a
      view, or a value is wanted in two places, there is a `kernel.copy`;
      statistic `copies` counts them and `remarks = true` names them;
    - the kernel that makes a gradient adds it to the storage by itself
      (`accumulate`), or writes it there where the `qwen.accumulate_grad` has
      `overwrite`. Where that kernel is in a called function, its callers pass
      the storage, and an output argument that is added to is marked
      `qwen.accumulate`. Calls that add other results than the first one call a
      copy of the function; its `qwen.specializes` names the original;
    - a group becomes a `kernel.group` call of a `kernel.group_function`. Groups
      with equal bodies and layouts share one function.

    The rows of a block follow from the iteration space alone, so sums over rows
    do not depend on the number of threads.

    An op without a kernel is an error that names the op, its function and the
    nearest form that has one.

    Input:
    ```mlir
    func.func @f(%x: tensor<8x4xf32>, %w: tensor<6x4xf32>) -> tensor<8x6xf32> {
      %y = qwen.linear %x, %w : tensor<8x4xf32>, tensor<6x4xf32> -> tensor<8x6xf32>
      return %y : tensor<8x6xf32>
    }
    ```
    Output:
    ```mlir
    func.func @f(%x: memref<8x4xf32>, %w: memref<6x4xf32>, %y: memref<8x6xf32>) {
      kernel.gemm ins(%x, %w : memref<8x4xf32>, memref<6x4xf32>) outs(%y : memref<8x6xf32>) {transpose_b = true}
      return
    }
    ```
  }];
  let options = [
    Option<"remarks", "remarks", "bool", "false",
           "Emit a remark for each copy">];
  let statistics = [
    Statistic<"numKernels", "kernels", "Kernel calls made">,
    Statistic<"numGroupFunctions", "group-functions", "Distinct groups">,
    Statistic<"numCopies", "copies", "Copies that no view could avoid">];
  let dependentDialects = ["::mlir::memref::MemRefDialect",
                           "::mlir::func::FuncDialect",
                           "::qwen::kernel::KernelDialect"];
}

def ChooseAlgorithmsPass : Pass<"qwen-choose-algorithms", "::mlir::ModuleOp"> {
  let summary = "Name the library's algorithm for each matrix product";
  let description = [{
    For targets whose products come from cuBLASLt. The algorithm of a product is
    looked up in a tuning table (`qwen-bench tune` makes one; that of the
    target's card is built in) by its sizes, transposes, types and whether it
    adds to something, and becomes part of the plan: nothing is chosen when a
    plan runs, so that every run has the same bits. One that overwrites a
    gradient has the algorithm of those that add to it. A product that the table
    does not have keeps an empty list, the library's first choice.

    Input:
    ```mlir
    kernel.gemm ins(%x, %w : memref<8192x6144xbf16>, memref<5120x6144xbf16>) outs(%y : memref<8192x5120xbf16>) {transpose_b = true}
    ```
    Output:
    ```mlir
    kernel.gemm ins(%x, %w : memref<8192x6144xbf16>, memref<5120x6144xbf16>) outs(%y : memref<8192x5120xbf16>) {algorithm = array<i64: 66, 394, 36, 1, 0, 0, 0, 0, 3>, transpose_b = true}
    ```
  }];
  let options = [
    Option<"file", "file", "std::string", "",
           "Tuning table to read; empty: the built-in one">];
  let statistics = [
    Statistic<"numTuned", "tuned", "Products in the table">,
    Statistic<"numUnknown", "unknown", "Products that are not in it">];
}

def VerifyLoweringPass : Pass<"verify-lowering", "::mlir::ModuleOp"> {
  let summary = "Check what holds after the lowering stage";
  let description = [{
    Functions hold only kernel calls, views, storages, allocations, calls and
    returns; the module only functions, parameters and group functions (or their
    machine code). Every kernel.group names a group function whose operand
    types, rows and column sums are those of the call. No value is a tensor. The
    target has a kernel for every call.

    An op that lowering has forgotten:
    ```mlir
    func.func @f(%x: memref<8x4xf32>) {
      // error: 'arith.constant' op in @f is no kernel call: only kernel ops may remain after lowering
      %c = arith.constant dense<0.0> : tensor<8x4xf32>
      return
    }
    ```
  }];
  let options = [
    Option<"target", "target", "std::string", "\"x86-64-v3\"",
           "What the plan runs on">];
}

#endif // QWEN_LOWERING_PASSES
