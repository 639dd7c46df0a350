//===- Passes.td - Code generation for fused groups ---------*- tablegen -*-===//

#ifndef QWEN_CODEGEN_PASSES
#define QWEN_CODEGEN_PASSES

include "mlir/Pass/PassBase.td"

def LowerGroupsPass : Pass<"qwen-lower-groups", "::mlir::ModuleOp"> {
  let summary = "Turn group functions into loops over vectors";
  let description = [{
    Each `kernel.group_function` becomes a `func.func` of the C signature in
    `kernel.group`, in a nested module `@qwen_groups`: a loop over rows, in it
    one loop over the columns for every sweep (see GroupAnalysis.h), 16 elements
    at a time, the remainder of a row as one shorter vector.

    The arithmetic does not depend on what else is in the group: every op is one
    correctly rounded instruction or one fixed approximation (exp, log …), there
    is no contraction, and a row sum always adds columns c, c + 16, … in lanes,
    then the lanes pairwise. Hence fused and unfused groups give the same bits.
    bf16 values are held as f32 numbers that fit bf16, so widening is free and
    rounding is to nearest even.

    Input:
    ```mlir
    kernel.group_function @double attributes {domain = array<i64: 8, 32>, rows_per_block = 8 : i64,
        input_types = [memref<8x32xf32>], output_types = [memref<8x32xf32>], column_sums = array<i64>} {
    ^bb0(%x: tensor<8x32xf32>):
      %y = arith.addf %x, %x : tensor<8x32xf32>
      qwen.yield %y : tensor<8x32xf32>
    }
    ```
    Output (shortened):
    ```mlir
    module @qwen_groups {
      func.func @double(%operands: !llvm.ptr, %partials: !llvm.ptr, %begin: i64, %end: i64) {
        scf.for %row = %begin to %end step %c1 : i64 {
          scf.for %column = %c0 to %c32 step %c16 : i64 {
            %x = llvm.load %address : !llvm.ptr -> vector<16xf32>
            %y = arith.addf %x, %x : vector<16xf32>
            llvm.store %y, %result : vector<16xf32>, !llvm.ptr
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

def CompileGroupsPass : Pass<"qwen-compile-groups", "::mlir::ModuleOp"> {
  let summary = "Compile the lowered groups to machine code";
  let description = [{
    Lowers the nested module `@qwen_groups` to LLVM IR, optimises it, emits an
    x86-64 object for `cpu`, links it into a shared object with lld, and
    replaces the module by one `kernel.binary`. A module without groups gets
    none.

    Input:
    ```mlir
    module @qwen_groups {
      func.func @double(%operands: !llvm.ptr, %partials: !llvm.ptr, %begin: i64, %end: i64) {
        return
      }
    }
    ```
    Output (shortened):
    ```mlir
    kernel.binary @code {object = "\7FELF", target = "x86-64-v3"}
    ```
  }];
  let options = [
    Option<"cpu", "cpu", "std::string", "\"x86-64-v3\"",
           "Micro-architecture level: x86-64-v2, x86-64-v3 or x86-64-v4">];
}

#endif // QWEN_CODEGEN_PASSES
