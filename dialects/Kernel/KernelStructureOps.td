//===- KernelStructureOps.td - What surrounds kernel calls --*- tablegen -*-===//
//
// Buffers that are not allocated by the program (parameters and optimizer
// state), views, and the generated code. None of these is a launch.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_KERNEL_STRUCTURE_OPS
#define QWEN_KERNEL_STRUCTURE_OPS

include "dialects/Kernel/KernelDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

class Kernel_StructureOp<string mnemonic, list<Trait> traits = []>
    : Op<Kernel_Dialect, mnemonic, traits>;

def Kernel_StorageRole : I32EnumAttr<"StorageRole",
    "what a persistent buffer holds", [
      I32EnumAttrCase<"Parameter", 0, "parameter">,
      I32EnumAttrCase<"Gradient", 1, "gradient">,
      I32EnumAttrCase<"Moment1", 2, "moment1">,
      I32EnumAttrCase<"Moment2", 3, "moment2">,
      I32EnumAttrCase<"Master", 4, "master">]> {
  let cppNamespace = "::qwen::kernel";
  let genSpecializedAttr = 0;
}
def Kernel_StorageRoleAttr : EnumAttr<Kernel_Dialect, Kernel_StorageRole, "role">;

def Kernel_StorageOp : Kernel_StructureOp<"storage", [Pure]> {
  let summary = "Persistent buffer of a parameter or of a stack of parameters";
  let description = [{
    Several names are placed one after the other and seen as one matrix. With
    `bucket` the one name is that of a qwen.bucket, and the buffer is this
    rank's shard of it.

    ```mlir
    %w = kernel.storage parameter [@"a.weight", @"b.weight"] : memref<96x64xbf16>
    %s = kernel.storage gradient bucket [@"model.layers.0.bf16"] : memref<512xf32>
    ```
  }];
  let arguments = (ins Kernel_StorageRoleAttr:$role,
                       SymbolRefArrayAttr:$parameters, UnitAttr:$bucket);
  let results = (outs AnyMemRef:$buffer);
  let assemblyFormat = [{
    $role (`bucket` $bucket^)? $parameters attr-dict `:` type($buffer)
  }];
  let hasVerifier = 1;
}

def Kernel_ViewOp : Kernel_StructureOp<"view", [Pure]> {
  let summary = "A strided view into a buffer";
  let description = [{
    The view's first element is element `offset` of the source, counted in
    elements from the source's own first element. Shape and strides are those of
    the result type (whose layout offset is 0); they may differ from the
    source's in any way that stays inside the root buffer. This one op serves
    for slices and reshapes; a view of a view adds the offsets.
  }];
  let arguments = (ins AnyMemRef:$source, I64Attr:$offset);
  let results = (outs AnyMemRef:$result);
  let assemblyFormat = [{
    $source `[` $offset `]` attr-dict `:` type($source) `to` type($result)
  }];
  let hasVerifier = 1;
}

def Kernel_GroupFunctionOp : Kernel_StructureOp<"group_function",
    [Symbol, IsolatedFromAbove]> {
  let summary = "Meaning of a generated kernel, before it is machine code";
  let description = [{
    One per distinct fused group. The body is that of `qwen.group`: block
    arguments are the inputs as tensors, `qwen.yield` has the outputs. The memref
    types say how inputs and outputs lie in memory. Calls are `kernel.group`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       DenseI64ArrayAttr:$domain,
                       I64Attr:$rows_per_block,
                       TypeArrayAttr:$input_types,
                       TypeArrayAttr:$output_types,
                       DenseI64ArrayAttr:$column_sums);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let hasVerifier = 1;
  let extraClassDeclaration = "::llvm::LogicalResult verifyBody();";
}

class CodeNumberList<string what> : ArrayRefParameter<"int64_t", what> {
  let printer = [{ $_printer << '['; ::llvm::interleaveComma($_self, $_printer); $_printer << ']'; }];
  let parser = [{ ::qwen::kernel::parseNumbers($_parser) }];
}
def CodeNumbers : CodeNumberList<"numbers of a code symbol">;

def Kernel_CodeSymbolAttr : AttrDef<Kernel_Dialect, "CodeSymbol"> {
  let mnemonic = "code_symbol";
  let summary = "What a generated kernel takes and how it is launched";
  let description = [{
    Everything a call must agree with: the operands (inputs first) with the
    bytes that each covers from its first to its last element and the alignment
    that the code relies on, the rows, and the outputs that are column sums.
    `threads`, `blocks` and `shared_bytes` (of a block) are the launch geometry
    on a GPU and 0 on the CPU.

    ```mlir
    #kernel.code_symbol<name = "double", rows = 8, operand_bytes = [1024, 1024],
        operand_alignments = [16, 16], column_sums = [], threads = 256,
        blocks = 1, shared_bytes = 0>
    ```
  }];
  let parameters = (ins StringRefParameter<"function">:$name, "int64_t":$rows,
      CodeNumbers:$operand_bytes, CodeNumbers:$operand_alignments,
      CodeNumbers:$column_sums, "int64_t":$threads, "int64_t":$blocks,
      "int64_t":$shared_bytes);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Kernel_CodeSymbolArrayAttr
    : TypedArrayAttrBase<Kernel_CodeSymbolAttr, "code symbols">;

def Kernel_BinaryOp : Kernel_StructureOp<"binary", [Symbol]> {
  let summary = "Machine code of all group functions of a module";
  let description = [{
    `object` exports one symbol a group function, which `symbols` describes. For
    the CPU it is an x86-64 ELF shared object (see `kernel.group` for the
    signature) and `target` the micro-architecture level it was compiled for,
    such as `x86-64-v3`. For a GPU it is a CUDA ELF object and `target` its
    architecture, `sm_90a`; the kernels take the address of each operand, inputs
    first, and that of the partial sums, which lie block after block in the
    workspace, those of a block as on the CPU.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$target,
                       StrAttr:$object,
                       DefaultValuedAttr<Kernel_CodeSymbolArrayAttr, "{}">:$symbols);
  let assemblyFormat = "$sym_name attr-dict";
}

#endif // QWEN_KERNEL_STRUCTURE_OPS
