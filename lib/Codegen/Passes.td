//===- Passes.td - Code generation for fused groups ---------*- tablegen -*-===//

#ifndef QWEN_CODEGEN_PASSES
#define QWEN_CODEGEN_PASSES

include "mlir/Pass/PassBase.td"

def LowerGroupsPass : Pass<"qwen-lower-groups", "::mlir::ModuleOp"> {
  let summary = "Turn group functions into loops over vectors, for CPUs";
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
  let summary = "Compile the lowered groups to a shared object for CPUs";
  let description = [{
    Lowers the nested module `@qwen_groups` to LLVM IR, optimises it, emits an
    x86-64 object for `target`, links it into a shared object with lld, and
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
    kernel.binary @code {object = "\7FELF", symbols = [#kernel.code_symbol<...>], target = "x86-64-v3"}
    ```
  }];
  let options = [
    Option<"target", "target", "std::string", "\"x86-64-v3\"",
           "Micro-architecture level: x86-64-v2, x86-64-v3 or x86-64-v4">];
}

def LowerGroupsGpuPass : Pass<"qwen-lower-groups-gpu", "::mlir::ModuleOp"> {
  let summary = "Turn group functions into GPU kernels";
  let description = [{
    Each `kernel.group_function` becomes an NVVM kernel (an `llvm.func`) in a
    nested module `@qwen_groups`. Its parameters are the addresses of the
    operands, inputs first, and that of the partial column sums. Launch geometry
    follows from the shape and from what the calls in the module say about the
    alignment of operands (GpuGeometry.h); it is recorded as the function's
    `kernel.code_symbol`, and `rows_per_block` of the calls becomes the rows of
    a block.

    - A group without sums, rotations and row outputs is flat: every thread
      loads a few units (16 bytes of each operand, or less where rows are short
      or not aligned), computes, stores.
    - In all others a team of threads has a row: values that several sweeps need
      stay in registers, row sums go through shuffles and, between warps,
      through shared memory, rotations exchange pairs through shared memory. A
      block walks over consecutive rows; the loads of the next row are on their
      way while one is worked at. Column sums stay in registers and leave as one
      partial sum a block.

    The order of every sum follows from the geometry. Elementwise ops are those
    of qwen-lower-groups, but for exponentials, quotients and roots, which use
    the GPU's instructions.

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
      llvm.func @double(%in: !llvm.ptr<1>, %out: !llvm.ptr<1>, %partials: !llvm.ptr<1>) attributes
          {kernel.code_symbol = #kernel.code_symbol<name = "double", rows = 8, ...>, nvvm.kernel} {
        %thread = nvvm.read.ptx.sreg.tid.x : i32
        %x = llvm.load %address {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xf32>
        %y = arith.addf %x, %x : vector<8xf32>
        llvm.store %y, %result {alignment = 16 : i64} : vector<8xf32>, !llvm.ptr<1>
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::NVVM::NVVMDialect", "::mlir::math::MathDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

def CompileGroupsGpuPass
    : Pass<"qwen-compile-groups-gpu", "::mlir::ModuleOp"> {
  let summary = "Compile the lowered groups to a cubin";
  let description = [{
    Lowers the nested module `@qwen_groups` to LLVM IR, optimises it, emits PTX
    for `target`, assembles it with nvJitLink (a library of the CUDA toolkit,
    loaded here; no GPU is needed), and replaces the module by one
    `kernel.binary`. A module without groups gets none. With `ptx` the binary
    holds the PTX, for reading and for tests.

    Input:
    ```mlir
    module @qwen_groups {
      llvm.func @double(%in: !llvm.ptr<1>, %out: !llvm.ptr<1>, %partials: !llvm.ptr<1>) attributes
          {kernel.code_symbol = #kernel.code_symbol<name = "double", rows = 8, ...>, nvvm.kernel} {
        llvm.return
      }
    }
    ```
    Output (shortened):
    ```mlir
    kernel.binary @code {object = "\7FELF", symbols = [#kernel.code_symbol<...>], target = "sm_90a"}
    ```
  }];
  let options = [
    Option<"target", "target", "std::string", "\"sm_90a\"",
           "GPU architecture">,
    Option<"ptx", "ptx", "bool", "false", "Stop at PTX">];
}

#endif // QWEN_CODEGEN_PASSES
