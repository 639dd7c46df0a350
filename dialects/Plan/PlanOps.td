//===- PlanOps.td - Ops of the plan dialect -----------------*- tablegen -*-===//

#ifndef QWEN_PLAN_OPS
#define QWEN_PLAN_OPS

include "dialects/Plan/PlanDialect.td"
include "mlir/IR/BuiltinTypes.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Plan_Op<string mnemonic, list<Trait> traits = []>
    : Op<Plan_Dialect, mnemonic, traits>;

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

def Plan_ArenaOp : Plan_Op<"arena", [Symbol]> {
  let summary = "One allocation of the runtime";
  let description = [{
    All buffers of an arena hold the same class of data. The size is a multiple
    of 64 bytes.

    ```mlir
    plan.arena @activation activation size 4096
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Plan_MemoryClassAttr:$holds,
                       I64Attr:$size);
  let assemblyFormat = "$sym_name $holds `size` $size attr-dict";
  let hasVerifier = 1;
}

def Plan_BufferOp : Plan_Op<"buffer",
    [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A byte range of an arena";
  let description = [{
    A buffer of an activation arena belongs to one program and lives from one
    step of it to another, both included; two buffers that live at the same
    step never overlap. Every other buffer lives always.

    ```mlir
    %0 = plan.buffer @activation[0, 256] in @micro_step steps 3 to 7
    %1 = plan.buffer @parameter[64, 128]
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$arena, I64Attr:$offset, I64Attr:$size,
                       OptionalAttr<FlatSymbolRefAttr>:$program,
                       OptionalAttr<I64Attr>:$first, OptionalAttr<I64Attr>:$last);
  let results = (outs Plan_BufferType:$buffer);
  let assemblyFormat = [{
    $arena `[` $offset `,` $size `]`
    (`in` $program^ `steps` $first `to` $last)? attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_ViewOp : Plan_Op<"view", [Pure]> {
  let summary = "A typed window of a buffer";
  let description = [{
    The view's first element lies at the byte offset; the memref's shape and
    strides (its layout offset is 0) say where the others are.

    ```mlir
    %1 = plan.view %0[128] : memref<8x4xf32>
    ```
  }];
  let arguments = (ins Plan_BufferType:$buffer, I64Attr:$byte_offset);
  let results = (outs AnyMemRef:$view);
  let assemblyFormat = "$buffer `[` $byte_offset `]` attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def Plan_WorkspaceOp : Plan_Op<"workspace"> {
  let summary = "Names the buffer that every launch may use as scratch";
  let arguments = (ins Plan_BufferType:$buffer);
  let assemblyFormat = "$buffer attr-dict";
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

def Plan_HeaderOp : Plan_Op<"header"> {
  let summary = "Facts about the whole plan";
  let description = [{
    `model` holds facts for reports, `flops` the terms of the model FLOPs of a
    trained token: each name has [FLOPs of a token, FLOPs of a pair of tokens in
    one document]. `world_size` is the number of ranks.

    ```mlir
    plan.header target "x86-64-v3" tokens 64 max_documents 4 vocab_size 256
      {model = {name = "tiny"}, flops = {linear = [1.0e6, 0.0]}}
    ```
  }];
  let arguments = (ins StrAttr:$target, I64Attr:$tokens, I64Attr:$max_documents,
                       I64Attr:$vocab_size, OptionalAttr<DictionaryAttr>:$model,
                       OptionalAttr<DictionaryAttr>:$flops,
                       DefaultValuedAttr<I64Attr, "1">:$world_size);
  let assemblyFormat = [{
    `target` $target `tokens` $tokens `max_documents` $max_documents
    `vocab_size` $vocab_size attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_BucketOp : Plan_Op<"bucket", [AttrSizedOperandSegments]> {
  let summary = "Parameters that the ranks hold by equal parts";
  let description = [{
    A flat sequence of `elements` elements; the views are a rank's shard of it.

    ```mlir
    plan.bucket "model.norm.f32" elements 256 value(%0 : memref<128xf32>)
      gradient(%1 : memref<128xf32>)
    ```
  }];
  let arguments = (ins StrAttr:$name, I64Attr:$elements,
                       AnyMemRef:$value,
                       Optional<AnyMemRef>:$gradient,
                       Optional<AnyMemRef>:$moment1,
                       Optional<AnyMemRef>:$moment2,
                       Optional<AnyMemRef>:$master);
  let assemblyFormat = [{
    $name `elements` $elements
    `value` `(` $value `:` type($value) `)`
    (`gradient` `(` $gradient^ `:` type($gradient) `)`)?
    (`moment1` `(` $moment1^ `:` type($moment1) `)`)?
    (`moment2` `(` $moment2^ `:` type($moment2) `)`)?
    (`master` `(` $master^ `:` type($master) `)`)? attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_ParameterOp : Plan_Op<"parameter", [AttrSizedOperandSegments]> {
  let summary = "A trainable tensor and its optimizer state";
  let description = [{
    Parameters with one `stack` number lie one after the other in one buffer, in
    the order of `stack_index`, so that one GEMM serves them all. Either it has
    a view of its value, and maybe of others, or a place in a bucket.

    ```mlir
    plan.parameter "model.norm.weight" stack 3[0] init "one"
      value(%0 : memref<64xbf16>) gradient(%1 : memref<64xf32>)
      {decay = false}
    plan.parameter "model.norm.weight" stack 3[0] init "one"
      in "model.norm.bf16"[0] of tensor<64xbf16>
    ```
  }];
  let arguments = (ins StrAttr:$name, I64Attr:$stack, I64Attr:$stack_index,
                       StrAttr:$init,
                       DefaultValuedAttr<F64Attr, "0.0">:$std,
                       DefaultValuedAttr<BoolAttr, "true">:$decay,
                       OptionalAttr<StrAttr>:$bucket,
                       OptionalAttr<I64Attr>:$bucket_offset,
                       OptionalAttr<TypeAttr>:$type,
                       Optional<AnyMemRef>:$value,
                       Optional<AnyMemRef>:$gradient,
                       Optional<AnyMemRef>:$moment1,
                       Optional<AnyMemRef>:$moment2,
                       Optional<AnyMemRef>:$master);
  let assemblyFormat = [{
    $name `stack` $stack `[` $stack_index `]` `init` $init
    (`in` $bucket^ `[` $bucket_offset `]` `of` $type)?
    (`value` `(` $value^ `:` type($value) `)`)?
    (`gradient` `(` $gradient^ `:` type($gradient) `)`)?
    (`moment1` `(` $moment1^ `:` type($moment1) `)`)?
    (`moment2` `(` $moment2^ `:` type($moment2) `)`)?
    (`master` `(` $master^ `:` type($master) `)`)? attr-dict
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

def Plan_ProgramOp : Plan_Op<"program",
    [Symbol, AttrSizedOperandSegments, NoTerminator, SingleBlock,
     NoRegionArguments]> {
  let summary = "A list of launches with named inputs and outputs";
  let description = [{
    Holds `kernel` ops only, whose operands are `plan.view`s of the module. They
    run in this order, collectives on a stream of their own: those have
    `qwen.stream = 1`, and `qwen.waits` lists the earlier launches of the other
    stream that must be done before a launch starts. A launch may carry
    `qwen.label`, the place in the model it serves.

    ```mlir
    plan.program @eval inputs(["tokens"] %0 : memref<8xi32>)
                       outputs(["nll"] %1 : memref<8xf32>) {
      kernel.fill outs(%1 : memref<8xf32>) {value = 0.0 : f64}
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$input_names,
                       StrArrayAttr:$output_names, Variadic<AnyMemRef>:$inputs,
                       Variadic<AnyMemRef>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `inputs` `(` $input_names ($inputs^ `:` type($inputs))? `)`
    `outputs` `(` $output_names ($outputs^ `:` type($outputs))? `)`
    attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
}

#endif // QWEN_PLAN_OPS
