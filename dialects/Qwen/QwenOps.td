//===- QwenOps.td - Ops of the qwen dialect -----------------*- tablegen -*-===//

#ifndef QWEN_OPS
#define QWEN_OPS

include "dialects/Qwen/QwenDialect.td"
include "dialects/Qwen/QwenInterfaces.td"
include "mlir/IR/BuiltinTypes.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

/// Activations and weights.
def Qwen_Tensor : RankedTensorOf<[F32, BF16, F64]>;
/// Accumulated or wide values.
def Qwen_WideTensor : RankedTensorOf<[F32, F64]>;
/// Token ids, labels, positions, document boundaries.
def Qwen_IndexTensor : RankedTensorOf<[I32]>;

/// Every tensor has a static shape whose dimensions lie in [1, 2^31); rank 0
/// only where the op spreads or makes a scalar.
def Qwen_StaticTensors : NativeOpTrait<"StaticTensors"> {
  let cppNamespace = "::qwen";
}

/// The op's type rule (TypeRules.h) is verified before the generic check of
/// inferred types, whose message would not say what is wrong.
def Qwen_TypeRule : NativeOpTrait<"TypeRule"> {
  let cppNamespace = "::qwen";
}

class Qwen_Op<string mnemonic, list<Trait> traits = []>
    : Op<Qwen_Dialect, mnemonic, !listconcat([Qwen_StaticTensors], traits)> {
  let hasVerifier = 1;
}

/// A pure op with a cost; its result types follow from its operands where
/// `inferred` is left true.
class Qwen_PureOp<string mnemonic, list<Trait> traits = []>
    : Qwen_Op<mnemonic,
              !listconcat([Pure, DeclareOpInterfaceMethods<CostOpInterface>],
                          traits)>;

/// A pure op with a derivative rule.
class Qwen_DiffOp<string mnemonic, list<Trait> traits = []>
    : Qwen_PureOp<mnemonic,
        !listconcat([DeclareOpInterfaceMethods<DifferentiableOpInterface>],
                    traits)>;

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

def Qwen_ParameterOp : Qwen_Op<"parameter", [Symbol]> {
  let summary = "A trainable tensor, named as in the Hugging Face checkpoint";
  let description = [{
    `init` says how `qwenrun --init random` fills it: `normal` (mean 0, standard
    deviation `std`), `zero`, `one`, `a_log` (log of uniform [0.01, 16)).
    `decay` says whether AdamW's weight decay applies.

    ```mlir
    qwen.parameter @"model.norm.weight" : tensor<5120xbf16> {decay = false, init = "zero"}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<Qwen_Tensor>:$type,
                       StrAttr:$init,
                       DefaultValuedAttr<F64Attr, "0.0">:$std,
                       DefaultValuedAttr<BoolAttr, "true">:$decay);
  let assemblyFormat = "$sym_name `:` $type attr-dict";
}

def Qwen_GetParameterOp : Qwen_Op<"get_parameter",
    [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Value of a parameter, or of several stacked along dimension 0";
  let description = [{
    Several names give one tensor, their rows one after the other; the plan then
    places those parameters one after the other in memory, and one GEMM serves
    them all. A parameter may be part of one such stack only.
  }];
  let arguments = (ins SymbolRefArrayAttr:$parameters);
  let results = (outs Qwen_Tensor:$value);
  let assemblyFormat = "$parameters attr-dict `:` type($value)";
}

def Qwen_AccumulateGradOp : Qwen_Op<"accumulate_grad",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Adds to the gradient of a parameter or of a stack of them";
  let description = [{
    With `overwrite` the gradient becomes `grad`, whatever it was.
  }];
  let arguments = (ins SymbolRefArrayAttr:$parameters, Qwen_WideTensor:$grad,
                       UnitAttr:$overwrite);
  let assemblyFormat = "$parameters `,` $grad attr-dict `:` type($grad)";
}

//===----------------------------------------------------------------------===//
// Several ranks
//===----------------------------------------------------------------------===//

def Qwen_BucketOp : Qwen_Op<"bucket",
    [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Parameters that the ranks gather and scatter together";
  let description = [{
    A flat sequence of parameters of one element type, which the ranks hold by
    equal parts. Parameter i begins at element `offsets[i]`: a multiple of 64,
    or right behind the one before it, which is so inside a stack. Elements
    that belong to no parameter are zero. Gradients are held in `gradient_type`,
    where it is given, else in float32 (float64 for f64).

    ```mlir
    qwen.bucket @"model.norm.f32" : tensor<256xf32>
      {parameters = [@"model.norm.weight"], offsets = array<i64: 0>}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<Qwen_Tensor>:$type,
                       SymbolRefArrayAttr:$parameters,
                       DenseI64ArrayAttr:$offsets,
                       OptionalAttr<TypeAttr>:$gradient_type);
  let assemblyFormat = "$sym_name `:` $type attr-dict";
  let extraClassDeclaration = [{
    /// Element type of this rank's gradients.
    ::mlir::Type gradientElement();
  }];
}

def Qwen_AllGatherOp : Qwen_Op<"all_gather",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "All elements of a bucket, from the shards of all ranks";
  let description = [{
    Not pure: gathers keep their place, and a second one of the same bucket is
    there so that the first one's memory can be reused in between.
  }];
  let arguments = (ins FlatSymbolRefAttr:$bucket);
  let results = (outs Qwen_Tensor:$flat);
  let assemblyFormat = "$bucket attr-dict `:` type($flat)";
}

def Qwen_BucketPartOp : Qwen_Op<"bucket_part", [Pure]> {
  let summary = "A parameter, or a stack of them, in a gathered bucket";
  let description = [{
    The elements from `offset` on, in row-major order. `parameters` names them
    for reports.

    ```mlir
    %w = qwen.bucket_part %flat[64] [@w] : tensor<256xf32> -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Qwen_Tensor:$flat, I64Attr:$offset,
                       SymbolRefArrayAttr:$parameters);
  let results = (outs Qwen_Tensor:$value);
  let assemblyFormat = [{
    $flat `[` $offset `]` $parameters attr-dict `:` type($flat) `->`
    type($value)
  }];
}

def Qwen_ReduceScatterOp : Qwen_Op<"reduce_scatter",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Adds the sum over all ranks to the gradient of a bucket";
  let description = [{
    Each rank gets its shard of the sum. With `overwrite` it becomes the
    gradient instead of being added to it.
  }];
  let arguments = (ins FlatSymbolRefAttr:$bucket, Qwen_WideTensor:$flat,
                       UnitAttr:$overwrite);
  let assemblyFormat = "$bucket `,` $flat attr-dict `:` type($flat)";
}

def Qwen_ShardedEmbeddingOp : Qwen_Op<"sharded_embedding",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "qwen.embedding of a table that the ranks hold in parts";
  let description = [{
    Instead of the whole table the ranks exchange rows: each one gathers the ids
    of all, looks up what it holds of them, and gets the sum over all ranks for
    its own tokens. Not pure, as gathers are not.

    ```mlir
    %y = qwen.sharded_embedding @"embed.bf16"[@"embed.weight"], %ids
      : tensor<8xi32> -> tensor<8x4xbf16>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$bucket, SymbolRefAttr:$table,
                       Qwen_IndexTensor:$ids);
  let results = (outs Qwen_Tensor:$y);
  let assemblyFormat = [{
    $bucket `[` $table `]` `,` $ids attr-dict `:` type($ids) `->` type($y)
  }];
}

def Qwen_ShardedEmbeddingGradOp : Qwen_Op<"sharded_embedding_grad",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Adds the gradient of a table by the tokens of all ranks";
  let description = [{
    Each rank gathers ids and gradients of the rows from all, and adds those of
    its shard in token order, rank 0's tokens first. With `overwrite` the sum
    becomes the gradient of the bucket, which holds nothing but the table.
  }];
  let arguments = (ins FlatSymbolRefAttr:$bucket, SymbolRefAttr:$table,
                       Qwen_Tensor:$dy, Qwen_IndexTensor:$ids,
                       UnitAttr:$overwrite);
  let assemblyFormat = [{
    $bucket `[` $table `]` `,` $dy `,` $ids attr-dict `:` type($dy) `,`
    type($ids)
  }];
}

//===----------------------------------------------------------------------===//
// Matrix products
//===----------------------------------------------------------------------===//

def Qwen_LinearOp : Qwen_DiffOp<"linear",
    [Qwen_TypeRule, DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let extraClassDeclaration = "::llvm::LogicalResult verifyTypes();";
  let summary = "y = x w^T";
  let description = [{
    x [T, K], w [N, K], y [T, N] in x's element type, accumulated in f32 (f64)
    and rounded once.

    ```mlir
    %y = qwen.linear %x, %w : tensor<8x4xbf16>, tensor<6x4xbf16> -> tensor<8x6xbf16>
    ```
  }];
  let arguments = (ins Qwen_Tensor:$x, Qwen_Tensor:$w);
  let results = (outs Qwen_Tensor:$y);
  let assemblyFormat = [{
    $x `,` $w attr-dict `:` type($x) `,` type($w) `->` type($y)
  }];
}

def Qwen_LinearAddOp : Qwen_PureOp<"linear_add", [AllTypesMatch<["y", "addend"]>]> {
  let summary = "y = x w^T + addend";
  let description = [{
    `qwen.linear` and the sum with `addend` in one product, rounded once. Stage
    fusion makes it of a projection and a residual; there is no derivative.

    ```mlir
    %y = qwen.linear_add %x, %w, %r : tensor<8x4xbf16>, tensor<6x4xbf16>, tensor<8x6xbf16> -> tensor<8x6xbf16>
    ```
  }];
  let arguments = (ins Qwen_Tensor:$x, Qwen_Tensor:$w, Qwen_Tensor:$addend);
  let results = (outs Qwen_Tensor:$y);
  let assemblyFormat = [{
    $x `,` $w `,` $addend attr-dict `:` type($x) `,` type($w) `,` type($addend) `->` type($y)
  }];
}

def Qwen_MatmulOp : Qwen_DiffOp<"matmul"> {
  let summary = "c = op(a) op(b), the result possibly wider than the operands";
  let description = [{
    Two-dimensional. `transpose_a` reads a as [K, M], `transpose_b` b as [N, K].
    Autodiff writes input gradients (dy w) and weight gradients (dy^T x, f32).
  }];
  let arguments = (ins Qwen_Tensor:$a, Qwen_Tensor:$b,
                       UnitAttr:$transpose_a, UnitAttr:$transpose_b);
  let results = (outs Qwen_Tensor:$c);
  let assemblyFormat = [{
    $a `,` $b attr-dict `:` type($a) `,` type($b) `->` type($c)
  }];
}

//===----------------------------------------------------------------------===//
// Elementwise and row-wise
//===----------------------------------------------------------------------===//

class Qwen_UnaryOp<string mnemonic>
    : Qwen_DiffOp<mnemonic, [SameOperandsAndResultType]> {
  let arguments = (ins Qwen_Tensor:$x);
  let results = (outs Qwen_Tensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

def Qwen_SigmoidOp : Qwen_UnaryOp<"sigmoid"> {
  let summary = "1 / (1 + exp(-x)), finite with a finite derivative for every x";
}

def Qwen_SoftplusOp : Qwen_UnaryOp<"softplus"> {
  let summary = "log(1 + exp(x)); x itself where x > 20, as PyTorch does";
}

def Qwen_RmsNormOp : Qwen_DiffOp<"rms_norm"> {
  let summary = "Root-mean-square normalisation over the last dimension";
  let description = [{
    y = x rsqrt(mean(x^2) + eps) (offset + w), in f32 (f64), rounded once to y's
    element type, which is x's or wider. `offset` is 1 for the zero-centred
    norms (layers, q, k, final), 0 for the gated norm.
  }];
  let arguments = (ins Qwen_Tensor:$x, Qwen_Tensor:$w, F64Attr:$eps,
                       F64Attr:$offset);
  let results = (outs Qwen_Tensor:$y);
  let assemblyFormat = [{
    $x `,` $w attr-dict `:` type($x) `,` type($w) `->` type($y)
  }];
}

def Qwen_BroadcastOp : Qwen_DiffOp<"broadcast"> {
  let summary = "Repeats a tensor along new dimensions";
  let description = [{
    Dimension i of `x` becomes dimension `dims[i]` of `y` (same size, ascending);
    along the others y repeats.
  }];
  let arguments = (ins Qwen_Tensor:$x, DenseI64ArrayAttr:$dims);
  let results = (outs Qwen_Tensor:$y);
  let assemblyFormat = "$x `dims` `=` $dims attr-dict `:` type($x) `->` type($y)";
}

def Qwen_ReduceSumOp : Qwen_DiffOp<"reduce_sum"> {
  let summary = "Sum over some dimensions, which vanish";
  let arguments = (ins Qwen_WideTensor:$x, DenseI64ArrayAttr:$dims);
  let results = (outs Qwen_WideTensor:$y);
  let assemblyFormat = "$x `dims` `=` $dims attr-dict `:` type($x) `->` type($y)";
}

def Qwen_RopeAnglesOp : Qwen_PureOp<"rope_angles"> {
  let summary = "cos and sin of each token's rotary angles";
  let description = [{
    [T] -> [T, R]: cos(position theta^(-2j/R)) for j < R/2, then the sines.
  }];
  let arguments = (ins Qwen_IndexTensor:$positions, F64Attr:$theta);
  let results = (outs Qwen_WideTensor:$angles);
  let assemblyFormat = [{
    $positions attr-dict `:` type($positions) `->` type($angles)
  }];
}

def Qwen_RopeOp : Qwen_DiffOp<"rope", [TypesMatchWith<"y has x's type", "x", "y", "$_self">]> {
  let summary = "Rotates the first R elements of each head, pairing j with j + R/2";
  let description = [{
    y_j = x_j cos_j - x_{j+R/2} sin_j, y_{j+R/2} = x_{j+R/2} cos_j + x_j sin_j for
    j < R/2; the other elements pass through. `inverse` rotates back, which is
    the derivative.
  }];
  let arguments = (ins Qwen_WideTensor:$x, Qwen_WideTensor:$angles,
                       UnitAttr:$inverse);
  let results = (outs Qwen_WideTensor:$y);
  let assemblyFormat = "$x `,` $angles attr-dict `:` type($x) `,` type($angles)";
}

//===----------------------------------------------------------------------===//
// Shape
//===----------------------------------------------------------------------===//

def Qwen_ReshapeOp : Qwen_DiffOp<"reshape"> {
  let summary = "The same elements in row-major order under another shape";
  let arguments = (ins Qwen_Tensor:$x);
  let results = (outs Qwen_Tensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($y)";
}

def Qwen_SplitOp : Qwen_DiffOp<"split"> {
  let summary = "Cuts the last dimension into consecutive pieces";
  let arguments = (ins Qwen_Tensor:$x);
  let results = (outs Variadic<Qwen_Tensor>:$pieces);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($pieces)";
}

def Qwen_ConcatOp : Qwen_DiffOp<"concat"> {
  let summary = "Joins tensors along the last dimension";
  let arguments = (ins Variadic<Qwen_Tensor>:$pieces);
  let results = (outs Qwen_Tensor:$y);
  let assemblyFormat = "$pieces attr-dict `:` type($pieces) `->` type($y)";
}

//===----------------------------------------------------------------------===//
// Regions: what becomes hand-written kernels
//===----------------------------------------------------------------------===//

def Qwen_EmbeddingOp : Qwen_DiffOp<"embedding",
    [Qwen_TypeRule, DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let extraClassDeclaration = "::llvm::LogicalResult verifyTypes();";
  let summary = "y[t, :] = table[ids[t], :]";
  let arguments = (ins Qwen_Tensor:$table, Qwen_IndexTensor:$ids);
  let results = (outs Qwen_Tensor:$y);
  let assemblyFormat = [{
    $table `,` $ids attr-dict `:` type($table) `,` type($ids) `->` type($y)
  }];
}

def Qwen_EmbeddingGradOp : Qwen_PureOp<"embedding_grad"> {
  let summary = "Gradient of embedding's table: rows summed in token order";
  let arguments = (ins Qwen_Tensor:$dy, Qwen_IndexTensor:$ids);
  let results = (outs Qwen_WideTensor:$dtable);
  let assemblyFormat = [{
    $dy `,` $ids attr-dict `:` type($dy) `,` type($ids) `->` type($dtable)
  }];
}

def Qwen_CausalConv1dOp : Qwen_DiffOp<"causal_conv1d",
    [Qwen_TypeRule, DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let extraClassDeclaration = "::llvm::LogicalResult verifyTypes();";
  let summary = "Causal depthwise convolution inside documents, then SiLU";
  let description = [{
    x [T, C], w [C, 1, width]; see `kernel.causal_conv1d`. The document
    boundaries are an operand because a convolution that does not see them leaks
    from one packed document into the next.
  }];
  let arguments = (ins Qwen_Tensor:$x, Qwen_Tensor:$w,
                       Qwen_IndexTensor:$cu_seqlens);
  let results = (outs Qwen_Tensor:$y);
  let assemblyFormat = [{
    $x `,` $w ``
    custom<DocumentBoundaries>($cu_seqlens) attr-dict `:`
    type($x) `,` type($w) `,` type($cu_seqlens) `->` type($y)
  }];
}

def Qwen_CausalConv1dGradOp : Qwen_PureOp<"causal_conv1d_grad"> {
  let summary = "Gradients of causal_conv1d";
  let arguments = (ins Qwen_Tensor:$x, Qwen_Tensor:$w, Qwen_Tensor:$dy,
                       Qwen_IndexTensor:$cu_seqlens);
  let results = (outs Qwen_Tensor:$dx, Qwen_WideTensor:$dw);
  let assemblyFormat = [{
    $x `,` $w `,` $dy ``
    custom<DocumentBoundaries>($cu_seqlens) attr-dict `:`
    type($x) `,` type($w) `,` type($dy) `,` type($cu_seqlens) `->`
    type($dx) `,` type($dw)
  }];
}

def Qwen_GatedDeltaOp : Qwen_DiffOp<"gated_delta",
    [Qwen_TypeRule, DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let extraClassDeclaration = "::llvm::LogicalResult verifyTypes();";
  let summary = "Chunked gated delta rule with l2-normalised q and k";
  let description = [{
    q, k [T, Hk, K], v [T, Hv, V], g [T, Hv] (log decay, f32 or f64), beta
    [T, Hv], o [T, Hv, V]; see `kernel.gated_delta`. Value head h uses key head
    h div (Hv / Hk).
  }];
  let arguments = (ins Qwen_Tensor:$q, Qwen_Tensor:$k, Qwen_Tensor:$v,
                       Qwen_WideTensor:$g, Qwen_Tensor:$beta,
                       Qwen_IndexTensor:$cu_seqlens,
                       F64Attr:$scale, F64Attr:$l2norm_eps,
                       DefaultValuedAttr<I64Attr, "64">:$chunk);
  let results = (outs Qwen_Tensor:$o);
  let assemblyFormat = [{
    $q `,` $k `,` $v `,` $g `,` $beta ``
    custom<DocumentBoundaries>($cu_seqlens) attr-dict `:`
    type($q) `,` type($k) `,` type($v) `,` type($g) `,` type($beta) `,`
    type($cu_seqlens) `->` type($o)
  }];
}

def Qwen_GatedDeltaGradOp : Qwen_PureOp<"gated_delta_grad"> {
  let summary = "Gradients of gated_delta";
  let arguments = (ins Qwen_Tensor:$q, Qwen_Tensor:$k, Qwen_Tensor:$v,
                       Qwen_WideTensor:$g, Qwen_Tensor:$beta, Qwen_Tensor:$dout,
                       Qwen_IndexTensor:$cu_seqlens,
                       F64Attr:$scale, F64Attr:$l2norm_eps, I64Attr:$chunk);
  let results = (outs Qwen_Tensor:$dq, Qwen_Tensor:$dk, Qwen_Tensor:$dv,
                      Qwen_WideTensor:$dg, Qwen_Tensor:$dbeta);
  let assemblyFormat = [{
    $q `,` $k `,` $v `,` $g `,` $beta `,` $dout ``
    custom<DocumentBoundaries>($cu_seqlens) attr-dict `:`
    type($q) `,` type($k) `,` type($v) `,` type($g) `,` type($beta) `,`
    type($dout) `,` type($cu_seqlens) `->` type($dq) `,` type($dk) `,`
    type($dv) `,` type($dg) `,` type($dbeta)
  }];
}

def Qwen_AttentionOp : Qwen_DiffOp<"attention"> {
  let summary = "Causal softmax attention inside documents, grouped queries";
  let description = [{
    q [T, Hq, D], k, v [T, Hkv, D], o [T, Hq, D], lse [T, Hq] (natural log, f32
    or f64); see `kernel.attention`. Query head h uses key/value head
    h div (Hq / Hkv). No derivative flows through lse.
  }];
  let arguments = (ins Qwen_Tensor:$q, Qwen_Tensor:$k, Qwen_Tensor:$v,
                       Qwen_IndexTensor:$cu_seqlens, F64Attr:$scale);
  let results = (outs Qwen_Tensor:$o, Qwen_WideTensor:$lse);
  let assemblyFormat = [{
    $q `,` $k `,` $v ``
    custom<DocumentBoundaries>($cu_seqlens) attr-dict `:`
    type($q) `,` type($k) `,` type($v) `,` type($cu_seqlens) `->`
    type($o) `,` type($lse)
  }];
}

def Qwen_AttentionGradOp : Qwen_PureOp<"attention_grad"> {
  let summary = "Gradients of attention";
  let arguments = (ins Qwen_Tensor:$q, Qwen_Tensor:$k, Qwen_Tensor:$v,
                       Qwen_Tensor:$o, Qwen_WideTensor:$lse, Qwen_Tensor:$dout,
                       Qwen_IndexTensor:$cu_seqlens, F64Attr:$scale);
  let results = (outs Qwen_Tensor:$dq, Qwen_Tensor:$dk, Qwen_Tensor:$dv);
  let assemblyFormat = [{
    $q `,` $k `,` $v `,` $o `,` $lse `,` $dout ``
    custom<DocumentBoundaries>($cu_seqlens) attr-dict `:`
    type($q) `,` type($k) `,` type($v) `,` type($o) `,` type($lse) `,`
    type($dout) `,` type($cu_seqlens) `->` type($dq) `,` type($dk) `,` type($dv)
  }];
}

def Qwen_LinearCrossEntropyOp : Qwen_DiffOp<"linear_cross_entropy"> {
  let summary = "Per-token loss of the vocabulary projection";
  let description = [{
    nll[t] = logsumexp(x[t] w^T) - (x[t] w^T)[labels[t]], 0 where labels[t] is
    `ignore_index`; see `kernel.linear_cross_entropy`. Labels are already
    shifted: labels[t] is the token that follows t in its document.
  }];
  let arguments = (ins Qwen_Tensor:$x, Qwen_Tensor:$w, Qwen_IndexTensor:$labels,
                       DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let results = (outs Qwen_WideTensor:$nll);
  let assemblyFormat = [{
    $x `,` $w `,` $labels attr-dict `:`
    type($x) `,` type($w) `,` type($labels) `->` type($nll)
  }];
}

def Qwen_LinearCrossEntropyGradOp : Qwen_PureOp<"linear_cross_entropy_grad"> {
  let summary = "Loss and gradients of linear_cross_entropy in one sweep";
  let arguments = (ins Qwen_Tensor:$x, Qwen_Tensor:$w, Qwen_IndexTensor:$labels,
                       Qwen_WideTensor:$dnll,
                       DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let results = (outs Qwen_WideTensor:$nll, Qwen_Tensor:$dx,
                      Qwen_WideTensor:$dw);
  let assemblyFormat = [{
    $x `,` $w `,` $labels `,` $dnll attr-dict `:`
    type($x) `,` type($w) `,` type($labels) `,` type($dnll) `->`
    type($nll) `,` type($dx) `,` type($dw)
  }];
}

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

def Qwen_GradNormOp : Qwen_Op<"grad_norm",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Norm of all gradients, clipping factor, finiteness";
  let description = [{
    Reads the gradients of `parameters`; see `kernel.grad_norm`.
  }];
  let arguments = (ins Qwen_WideTensor:$hyper, SymbolRefArrayAttr:$parameters);
  let results = (outs Qwen_WideTensor:$stats);
  let assemblyFormat = [{
    $hyper `of` $parameters attr-dict `:` type($hyper) `->` type($stats)
  }];
}

def Qwen_AdamWOp : Qwen_Op<"adamw",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "AdamW step of some parameters";
  let description = [{
    See `kernel.adamw`. `moment_type` is the element type of both moments;
    `master_type`, where given, that of master copies.
  }];
  let arguments = (ins Qwen_WideTensor:$hyper, Qwen_WideTensor:$stats,
                       Qwen_IndexTensor:$rng, SymbolRefArrayAttr:$parameters,
                       BoolAttr:$decay, TypeAttr:$moment_type,
                       OptionalAttr<TypeAttr>:$master_type);
  let assemblyFormat = [{
    $hyper `,` $stats `,` $rng `of` $parameters attr-dict `:`
    type($hyper) `,` type($stats) `,` type($rng)
  }];
}

//===----------------------------------------------------------------------===//
// Fused groups
//===----------------------------------------------------------------------===//

def Qwen_GroupOp : Qwen_Op<"group",
    [Pure, IsolatedFromAbove, SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "A fused chain: one generated kernel";
  let description = [{
    Holds elementwise and row-wise ops that run as one kernel over the rows of
    the iteration space `domain` ([T, D] or [T, H, D]; rows are the leading
    dimensions). Inside: arith and math elementwise ops, constants,
    qwen.sigmoid, softplus, broadcast, rope, reduce_sum over the last dimension
    (row sum) or over all leading ones (column sum; only as a result). No
    rms_norm: it is decomposed first.

    ```mlir
    %y = qwen.group(%a = %x : tensor<8x4xf32>) domain = [8, 4] -> tensor<8x4xf32> {
      %0 = qwen.sigmoid %a : tensor<8x4xf32>
      qwen.yield %0 : tensor<8x4xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs,
                       DenseI64ArrayAttr:$domain,
                       OptionalAttr<StrAttr>:$label);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
}

def Qwen_YieldOp : Op<Qwen_Dialect, "yield",
    [Pure, Terminator, ReturnLike]> {
  let summary = "Results of a qwen.group or kernel.group_function";
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  // The form that an implicit terminator needs.
  let builders = [OpBuilder<(ins),
      [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
}

#endif // QWEN_OPS
