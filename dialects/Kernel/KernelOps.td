//===- KernelOps.td - Every kernel, once --------------------*- tablegen -*-===//
//
// The home of each kernel's name, operands, directions and attributes.
//
// Shapes: T tokens, H hidden, I inner, V vocabulary, D head dimension, Hq/Hkv
// attention heads, Hk/Hv gated-delta key/value heads, K/V their head
// dimensions, S = documents + 1 boundary slots.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_KERNEL_OPS
#define QWEN_KERNEL_OPS

include "dialects/Kernel/KernelDialect.td"
include "dialects/Kernel/KernelInterfaces.td"

/// Elements of a kernel operand: float storage, or i32 for ids and boundaries.
def Kernel_Float : AnyTypeOf<[F32, BF16, F64]>;
def Kernel_FloatBuffer : MemRefOf<[F32, BF16, F64]>;
/// Accumulators and reductions: wide floats only.
def Kernel_WideBuffer : MemRefOf<[F32, F64]>;
def Kernel_IndexBuffer : MemRefOf<[I32]>;
/// What ranks hand each other.
def Kernel_GatheredBuffer : MemRefOf<[F32, BF16, F64, I32]>;

class In<Type type, string doc> : Arg<type, doc, [MemRead]>;
class Out<Type type, string doc> : Arg<type, doc, [MemWrite]>;
class InOut<Type type, string doc> : Arg<type, doc, [MemRead, MemWrite]>;

/// `id` is the kernel's number in the plan schema: new kernels get new numbers,
/// and a number is never used again.
class Kernel_Op<string mnemonic, int id, list<Trait> traits = []>
    : Op<Kernel_Dialect, mnemonic,
         !listconcat([DeclareOpInterfaceMethods<KernelOpInterface>], traits)> {
  int planId = id;
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Library kernels
//===----------------------------------------------------------------------===//

def Kernel_GemmOp : Kernel_Op<"gemm", 1> {
  let summary = "c = op(a) op(b), c += op(a) op(b), or c = op(a) op(b) + addend";
  let description = [{
    Row-major matrices, float32 accumulation (float64 for f64). Without
    transposes a is [M, K], b is [K, N], c is [M, N]; `transpose_a` reads a as
    [K, M], `transpose_b` reads b as [N, K]. c may be wider than a and b. There
    is at most one addend, of c's shape and type; c is rounded once.
    Row i of c depends on row i of op(a) alone, not on its place. `algorithm`
    is the library's configuration to use, as in the tuning table; empty: the
    library's first choice.
  }];
  let arguments = (ins
    In<Kernel_FloatBuffer, "left operand [M, K] or [K, M]">:$a,
    In<Kernel_FloatBuffer, "right operand [K, N] or [N, K]">:$b,
    Arg<Variadic<Kernel_FloatBuffer>, "added to the product, or none [M, N]", [MemRead]>:$addend,
    Out<Kernel_FloatBuffer, "result [M, N]">:$c,
    DefaultValuedAttr<BoolAttr, "false">:$transpose_a,
    DefaultValuedAttr<BoolAttr, "false">:$transpose_b,
    DefaultValuedAttr<BoolAttr, "false">:$accumulate,
    DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$algorithm);
  let assemblyFormat = [{
    `ins` `(` $a `,` $b `:` type($a) `,` type($b) `)`
    (`addend` `(` $addend^ `:` type($addend) `)`)?
    `outs` `(` $c `:` type($c) `)` attr-dict
  }];
}

//===----------------------------------------------------------------------===//
// Hand-written kernels
//===----------------------------------------------------------------------===//

def Kernel_EmbeddingOp : Kernel_Op<"embedding", 2> {
  let summary = "out[t, :] = table[ids[t], :]";
  let arguments = (ins
    In<Kernel_FloatBuffer, "rows by id [V, H]">:$table,
    In<Kernel_IndexBuffer, "row of each token [T]">:$ids,
    Out<Kernel_FloatBuffer, "gathered rows [T, H]">:$out);
  let assemblyFormat = [{
    `ins` `(` $table `,` $ids `:` type($table) `,` type($ids) `)`
    `outs` `(` $out `:` type($out) `)` attr-dict
  }];
}

def Kernel_EmbeddingGradOp : Kernel_Op<"embedding_grad", 3> {
  let summary = "dtable[ids[t], :] += dout[t, :], in token order";
  let description = [{
    Sums rows with the same id in token order, so that reruns are bit-equal.
    Without `accumulate` the whole table is written first (zeros for ids that
    do not occur).
  }];
  let arguments = (ins
    In<Kernel_FloatBuffer, "gradient of the rows [T, H]">:$dout,
    In<Kernel_IndexBuffer, "row of each token [T]">:$ids,
    Out<Kernel_WideBuffer, "gradient of the table [V, H]">:$dtable,
    DefaultValuedAttr<BoolAttr, "false">:$accumulate);
  let assemblyFormat = [{
    `ins` `(` $dout `,` $ids `:` type($dout) `,` type($ids) `)`
    `outs` `(` $dtable `:` type($dtable) `)` attr-dict
  }];
}

def Kernel_CausalConv1dOp : Kernel_Op<"causal_conv1d", 4> {
  let summary = "Causal depthwise convolution inside documents, then SiLU";
  let description = [{
    y[t, c] = silu(sum_i w[c, 0, i] x[t - width + 1 + i, c]) with zeros before
    the start of t's document. Accumulates and applies SiLU in float32 (float64
    for f64) and rounds once. Tokens outside every document get zeros.
  }];
  let arguments = (ins
    In<Kernel_FloatBuffer, "input [T, C]">:$x,
    In<Kernel_FloatBuffer, "taps [C, 1, width]">:$weight,
    In<Kernel_IndexBuffer, "document boundaries [S]">:$cu_seqlens,
    Out<Kernel_FloatBuffer, "output [T, C]">:$y);
  let assemblyFormat = [{
    `ins` `(` $x `,` $weight `,` $cu_seqlens `:`
    type($x) `,` type($weight) `,` type($cu_seqlens) `)`
    `outs` `(` $y `:` type($y) `)` attr-dict
  }];
}

def Kernel_CausalConv1dGradOp : Kernel_Op<"causal_conv1d_grad", 5> {
  let summary = "Gradients of causal_conv1d, the pre-activation recomputed";
  let description = [{
    The tap gradients are sums over tokens in a fixed blocking (independent of
    the thread count). `accumulate` adds them to dweight.
  }];
  let arguments = (ins
    In<Kernel_FloatBuffer, "input [T, C]">:$x,
    In<Kernel_FloatBuffer, "taps [C, 1, width]">:$weight,
    In<Kernel_FloatBuffer, "gradient of the output [T, C]">:$dy,
    In<Kernel_IndexBuffer, "document boundaries [S]">:$cu_seqlens,
    Out<Kernel_FloatBuffer, "gradient of the input [T, C]">:$dx,
    Out<Kernel_WideBuffer, "gradient of the taps [C, 1, width]">:$dweight,
    DefaultValuedAttr<BoolAttr, "false">:$accumulate);
  let assemblyFormat = [{
    `ins` `(` $x `,` $weight `,` $dy `,` $cu_seqlens `:`
    type($x) `,` type($weight) `,` type($dy) `,` type($cu_seqlens) `)`
    `outs` `(` $dx `,` $dweight `:` type($dx) `,` type($dweight) `)` attr-dict
  }];
}

def Kernel_GatedDeltaOp : Kernel_Op<"gated_delta", 6> {
  let summary = "Chunked gated delta rule with l2-normalised q and k";
  let description = [{
    Per document and value head h (key head h div (Hv/Hk)), with state
    S [K, V] = 0 at the document's start, in float32 (float64 for f64):
      qn = q rsqrt(sum q^2 + l2norm_eps), kn likewise,
      S <- exp(g_t) S;  d = beta_t (v_t - S^T kn_t);  S <- S + kn_t d^T;
      o_t = scale S^T qn_t.
    Computed by chunks of `chunk` tokens that start at the document's start.
    Tokens outside every document get zeros.
  }];
  let arguments = (ins
    In<Kernel_FloatBuffer, "queries [T, Hk, K]">:$q,
    In<Kernel_FloatBuffer, "keys [T, Hk, K]">:$k,
    In<Kernel_FloatBuffer, "values [T, Hv, V]">:$v,
    In<Kernel_WideBuffer, "log decay, <= 0 [T, Hv]">:$g,
    In<Kernel_FloatBuffer, "write strength in [0, 1] [T, Hv]">:$beta,
    In<Kernel_IndexBuffer, "document boundaries [S]">:$cu_seqlens,
    Out<Kernel_FloatBuffer, "output [T, Hv, V]">:$o,
    F64Attr:$scale, F64Attr:$l2norm_eps, I64Attr:$chunk);
  let assemblyFormat = [{
    `ins` `(` $q `,` $k `,` $v `,` $g `,` $beta `,` $cu_seqlens `:`
    type($q) `,` type($k) `,` type($v) `,` type($g) `,` type($beta) `,`
    type($cu_seqlens) `)` `outs` `(` $o `:` type($o) `)` attr-dict
  }];
}

def Kernel_GatedDeltaGradOp : Kernel_Op<"gated_delta_grad", 7> {
  let summary = "Gradients of gated_delta, chunk states recomputed";
  let arguments = (ins
    In<Kernel_FloatBuffer, "queries [T, Hk, K]">:$q,
    In<Kernel_FloatBuffer, "keys [T, Hk, K]">:$k,
    In<Kernel_FloatBuffer, "values [T, Hv, V]">:$v,
    In<Kernel_WideBuffer, "log decay, <= 0 [T, Hv]">:$g,
    In<Kernel_FloatBuffer, "write strength in [0, 1] [T, Hv]">:$beta,
    In<Kernel_FloatBuffer, "gradient of the output [T, Hv, V]">:$dout,
    In<Kernel_IndexBuffer, "document boundaries [S]">:$cu_seqlens,
    Out<Kernel_FloatBuffer, "gradient of q [T, Hk, K]">:$dq,
    Out<Kernel_FloatBuffer, "gradient of k [T, Hk, K]">:$dk,
    Out<Kernel_FloatBuffer, "gradient of v [T, Hv, V]">:$dv,
    Out<Kernel_WideBuffer, "gradient of g [T, Hv]">:$dg,
    Out<Kernel_FloatBuffer, "gradient of beta [T, Hv]">:$dbeta,
    F64Attr:$scale, F64Attr:$l2norm_eps, I64Attr:$chunk);
  let assemblyFormat = [{
    `ins` `(` $q `,` $k `,` $v `,` $g `,` $beta `,` $dout `,` $cu_seqlens `:`
    type($q) `,` type($k) `,` type($v) `,` type($g) `,` type($beta) `,`
    type($dout) `,` type($cu_seqlens) `)`
    `outs` `(` $dq `,` $dk `,` $dv `,` $dg `,` $dbeta `:`
    type($dq) `,` type($dk) `,` type($dv) `,` type($dg) `,` type($dbeta) `)`
    attr-dict
  }];
}

def Kernel_AttentionOp : Kernel_Op<"attention", 8> {
  let summary = "Causal softmax attention inside documents, grouped queries";
  let description = [{
    o = softmax(scale q k^T, causal inside the document) v; query head h uses
    key/value head h div (Hq/Hkv). lse is the natural log of the sum of
    exponentials of the scaled scores. Tokens outside every document get
    o = 0, lse = 0.
  }];
  let arguments = (ins
    In<Kernel_FloatBuffer, "queries [T, Hq, D]">:$q,
    In<Kernel_FloatBuffer, "keys [T, Hkv, D]">:$k,
    In<Kernel_FloatBuffer, "values [T, Hkv, D]">:$v,
    In<Kernel_IndexBuffer, "document boundaries [S]">:$cu_seqlens,
    Out<Kernel_FloatBuffer, "output [T, Hq, D]">:$o,
    Out<Kernel_WideBuffer, "log of the softmax denominator [T, Hq]">:$lse,
    F64Attr:$scale);
  let assemblyFormat = [{
    `ins` `(` $q `,` $k `,` $v `,` $cu_seqlens `:`
    type($q) `,` type($k) `,` type($v) `,` type($cu_seqlens) `)`
    `outs` `(` $o `,` $lse `:` type($o) `,` type($lse) `)` attr-dict
  }];
}

def Kernel_AttentionGradOp : Kernel_Op<"attention_grad", 9> {
  let summary = "Gradients of attention from its output and lse";
  let arguments = (ins
    In<Kernel_FloatBuffer, "queries [T, Hq, D]">:$q,
    In<Kernel_FloatBuffer, "keys [T, Hkv, D]">:$k,
    In<Kernel_FloatBuffer, "values [T, Hkv, D]">:$v,
    In<Kernel_FloatBuffer, "output of the forward [T, Hq, D]">:$o,
    In<Kernel_WideBuffer, "lse of the forward [T, Hq]">:$lse,
    In<Kernel_FloatBuffer, "gradient of the output [T, Hq, D]">:$dout,
    In<Kernel_IndexBuffer, "document boundaries [S]">:$cu_seqlens,
    Out<Kernel_FloatBuffer, "gradient of q [T, Hq, D]">:$dq,
    Out<Kernel_FloatBuffer, "gradient of k [T, Hkv, D]">:$dk,
    Out<Kernel_FloatBuffer, "gradient of v [T, Hkv, D]">:$dv,
    F64Attr:$scale);
  let assemblyFormat = [{
    `ins` `(` $q `,` $k `,` $v `,` $o `,` $lse `,` $dout `,` $cu_seqlens `:`
    type($q) `,` type($k) `,` type($v) `,` type($o) `,` type($lse) `,`
    type($dout) `,` type($cu_seqlens) `)`
    `outs` `(` $dq `,` $dk `,` $dv `:` type($dq) `,` type($dk) `,`
    type($dv) `)` attr-dict
  }];
}

def Kernel_LinearCrossEntropyOp : Kernel_Op<"linear_cross_entropy", 10> {
  let summary = "Per-token loss of the vocabulary projection, no full logits";
  let description = [{
    logits[t, :] = x[t, :] weight^T (float32), nll[t] = logsumexp(logits[t, :])
    - logits[t, labels[t]]; 0 where labels[t] is `ignore_index`. Logits exist
    for a block of tokens at a time, in workspace; on a GPU they are rounded to
    bf16, but for those of the labels. `logits_algorithm` as in gemm.
  }];
  let arguments = (ins
    In<Kernel_FloatBuffer, "hidden states [T, H]">:$x,
    In<Kernel_FloatBuffer, "vocabulary rows [V, H]">:$weight,
    In<Kernel_IndexBuffer, "target of each token, or ignore_index [T]">:$labels,
    Out<Kernel_WideBuffer, "loss of each token [T]">:$nll,
    DefaultValuedAttr<I64Attr, "-100">:$ignore_index,
    DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$logits_algorithm);
  let assemblyFormat = [{
    `ins` `(` $x `,` $weight `,` $labels `:`
    type($x) `,` type($weight) `,` type($labels) `)`
    `outs` `(` $nll `:` type($nll) `)` attr-dict
  }];
}

def Kernel_LinearCrossEntropyGradOp : Kernel_Op<"linear_cross_entropy_grad", 11> {
  let summary = "Loss and gradients of linear_cross_entropy in one sweep";
  let description = [{
    Three matrix products a block of tokens: logits, dx, dweight. `accumulate`
    adds to dweight. Ignored tokens contribute exact zeros. The algorithms of
    the products as in gemm.
  }];
  let arguments = (ins
    In<Kernel_FloatBuffer, "hidden states [T, H]">:$x,
    In<Kernel_FloatBuffer, "vocabulary rows [V, H]">:$weight,
    In<Kernel_IndexBuffer, "target of each token, or ignore_index [T]">:$labels,
    In<Kernel_WideBuffer, "gradient of each token's loss [T]">:$dnll,
    Out<Kernel_WideBuffer, "loss of each token [T]">:$nll,
    Out<Kernel_FloatBuffer, "gradient of x [T, H]">:$dx,
    Out<Kernel_WideBuffer, "gradient of the rows [V, H]">:$dweight,
    DefaultValuedAttr<I64Attr, "-100">:$ignore_index,
    DefaultValuedAttr<BoolAttr, "false">:$accumulate,
    DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$logits_algorithm,
    DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$dx_algorithm,
    DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$dweight_algorithm);
  let assemblyFormat = [{
    `ins` `(` $x `,` $weight `,` $labels `,` $dnll `:`
    type($x) `,` type($weight) `,` type($labels) `,` type($dnll) `)`
    `outs` `(` $nll `,` $dx `,` $dweight `:` type($nll) `,` type($dx) `,`
    type($dweight) `)` attr-dict
  }];
}

def Kernel_RopeAnglesOp : Kernel_Op<"rope_angles", 12> {
  let summary = "cos and sin of each token's rotary angles";
  let description = [{
    With R = rotary_dim, f_j = theta^(-2j/R) in float32 and j < R/2:
    angles[t, j] = cos(positions[t] f_j), angles[t, R/2 + j] = sin(...).
  }];
  let arguments = (ins
    In<Kernel_IndexBuffer, "position inside the document [T]">:$positions,
    Out<Kernel_WideBuffer, "cos then sin [T, R]">:$angles,
    F64Attr:$theta);
  let assemblyFormat = [{
    `ins` `(` $positions `:` type($positions) `)`
    `outs` `(` $angles `:` type($angles) `)` attr-dict
  }];
}

def Kernel_FillOp : Kernel_Op<"fill", 13> {
  let summary = "Every element becomes `value`";
  let arguments = (ins
    Out<AnyMemRef, "filled view">:$out, F64Attr:$value);
  let assemblyFormat = "`outs` `(` $out `:` type($out) `)` attr-dict";
}

def Kernel_CopyOp : Kernel_Op<"copy", 14> {
  let summary = "out = in, same shape and dtype, any strides";
  let arguments = (ins
    In<AnyMemRef, "source">:$in, Out<AnyMemRef, "destination">:$out);
  let assemblyFormat = [{
    `ins` `(` $in `:` type($in) `)` `outs` `(` $out `:` type($out) `)` attr-dict
  }];
}

//===----------------------------------------------------------------------===//
// Generated kernels
//===----------------------------------------------------------------------===//

def Kernel_GroupOp : Kernel_Op<"group", 15, [AttrSizedOperandSegments]> {
  let summary = "Call of a generated kernel: a fused elementwise/row-wise chain";
  let description = [{
    Runs the code symbol over `rows` rows, in blocks of `rows_per_block` rows
    that any thread may take (on a GPU: a block of threads each). Outputs whose
    index is in `column_sums` are sums over all rows: each block writes its
    partial sums into workspace and the blocks are added in order, so the result
    does not depend on the thread count; those in `accumulate` are added to what
    the output holds.

    The code symbol's C signature on a CPU, with operand addresses inputs first
    (that of a GPU: `kernel.binary`):
      void symbol(void *const *operands, void *partials,
                  int64_t row_begin, int64_t row_end);
    `partials` is the block's own area: the partial sums of each column-sum
    output, one after the other, float32 (float64 for f64).
  }];
  let arguments = (ins
    Arg<Variadic<AnyMemRef>, "inputs", [MemRead]>:$inputs,
    Arg<Variadic<AnyMemRef>, "outputs", [MemWrite]>:$outputs,
    FlatSymbolRefAttr:$symbol,
    I64Attr:$rows,
    I64Attr:$rows_per_block,
    DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$column_sums,
    DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$accumulate,
    I64Attr:$flops_per_row);
  let assemblyFormat = [{
    $symbol `ins` `(` ($inputs^ `:` type($inputs))? `)`
    `outs` `(` $outputs `:` type($outputs) `)` attr-dict
  }];
}

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

def Kernel_GradNormOp : Kernel_Op<"grad_norm", 16> {
  let summary = "Global gradient norm and the clipping factor";
  let description = [{
    norm = sqrt(sum over all tensors of sum g^2) in float64, summed in fixed
    blocks in tensor order. stats = [norm, clip, finite, 0] with
    clip = min(1, max_grad_norm / (norm + 1e-6)) (1 where max_grad_norm <= 0)
    and finite = 1 where norm is a finite number, else 0.
  }];
  let arguments = (ins
    Arg<Variadic<Kernel_WideBuffer>, "gradients", [MemRead]>:$grads,
    In<Kernel_WideBuffer, "lr, 1 - beta1, 1 - beta2, eps, weight_decay, max_grad_norm, 1 - beta1^t, 1 - beta2^t [8]">:$hyper,
    Out<Kernel_WideBuffer, "norm, clip, finite, 0 [4]">:$stats);
  let assemblyFormat = [{
    `grads` `(` $grads `:` type($grads) `)`
    `ins` `(` $hyper `:` type($hyper) `)`
    `outs` `(` $stats `:` type($stats) `)` attr-dict
  }];
}

def Kernel_AdamWOp : Kernel_Op<"adamw", 17, [AttrSizedOperandSegments]> {
  let summary = "AdamW over a list of tensors";
  let description = [{
    With c = stats.clip, for each element (PyTorch's order of operations):
      g = c grad;  p = p (1 - lr weight_decay)  (where `decay`);
      m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
      p = p - (lr / bias1) m / (sqrt(v) / sqrt(bias2) + eps).
    p is read from and written to the master where there is one, and the
    parameter becomes its rounding; without masters a bf16 parameter is rounded
    stochastically from a counter-based generator on (seed, step, tensor,
    element), as are bf16 moments. Where stats.finite is 0 nothing changes.
    Gradients stay as they are: the next step's first micro-batch overwrites
    them. `masters` is empty or as long as `params`. `tensor_ids` name the
    tensors for the generator. `first_elements`, where not empty, says that each
    entry of the lists is a part of its tensor, and with which element it begins.

    In a plan for several ranks the lists hold the rank's shards of `buckets`
    (numbers in the plan's table) and `tensor_ids` is empty. When the plan is
    loaded, the parts of parameters that the rank holds and whose decay is the
    op's take their place.
  }];
  let arguments = (ins
    Arg<Variadic<Kernel_FloatBuffer>, "parameters", [MemRead, MemWrite]>:$params,
    Arg<Variadic<Kernel_FloatBuffer>, "gradients", [MemRead]>:$grads,
    Arg<Variadic<Kernel_FloatBuffer>, "first moments", [MemRead, MemWrite]>:$moments1,
    Arg<Variadic<Kernel_FloatBuffer>, "second moments", [MemRead, MemWrite]>:$moments2,
    Arg<Variadic<Kernel_WideBuffer>, "float32 master parameters", [MemRead, MemWrite]>:$masters,
    In<Kernel_WideBuffer, "as in grad_norm [8]">:$hyper,
    In<Kernel_WideBuffer, "stats of grad_norm [4]">:$stats,
    In<Kernel_IndexBuffer, "seed, step [2]">:$rng,
    DenseI64ArrayAttr:$tensor_ids,
    DefaultValuedAttr<BoolAttr, "false">:$decay,
    DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$buckets,
    DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$first_elements);
  let assemblyFormat = [{
    `params` `(` $params `:` type($params) `)`
    `grads` `(` $grads `:` type($grads) `)`
    `moments1` `(` $moments1 `:` type($moments1) `)`
    `moments2` `(` $moments2 `:` type($moments2) `)`
    `masters` `(` ($masters^ `:` type($masters))? `)`
    `ins` `(` $hyper `,` $stats `,` $rng `:`
    type($hyper) `,` type($stats) `,` type($rng) `)` attr-dict
  }];
}

//===----------------------------------------------------------------------===//
// Several ranks
//===----------------------------------------------------------------------===//

def Kernel_AllGatherOp : Kernel_Op<"all_gather", 18> {
  let summary = "The shards of all ranks, one after the other in rank order";
  let description = [{
    With N ranks, elements [r S, (r + 1) S) of `full` are `shard` of rank r. All
    ranks launch their collectives in the same order.
  }];
  let arguments = (ins
    In<Kernel_GatheredBuffer, "this rank's part [S]">:$shard,
    Out<Kernel_GatheredBuffer, "the parts of all ranks [N S]">:$full);
  let assemblyFormat = [{
    `ins` `(` $shard `:` type($shard) `)`
    `outs` `(` $full `:` type($full) `)` attr-dict
  }];
}

def Kernel_ReduceScatterOp : Kernel_Op<"reduce_scatter", 19> {
  let summary = "This rank's part of the sum over all ranks";
  let description = [{
    On rank r: shard[i] = sum of full[r S + i] over the ranks 0 to N - 1, made in
    full's element type or a wider one, in a fixed order, and rounded to the
    shard's type once. `accumulate` adds that sum to shard[i]. What `full` holds
    afterwards is undefined: a transport may leave the sum in part r of it.
  }];
  let arguments = (ins
    InOut<Kernel_WideBuffer, "this rank's addend, destroyed [N S]">:$full,
    Out<Kernel_FloatBuffer, "this rank's part of the sum [S]">:$shard,
    DefaultValuedAttr<BoolAttr, "false">:$accumulate);
  let assemblyFormat = [{
    `ins` `(` $full `:` type($full) `)`
    `outs` `(` $shard `:` type($shard) `)` attr-dict
  }];
}

def Kernel_GradNormLocalOp : Kernel_Op<"grad_norm_local", 20> {
  let summary = "Sum of squares of this rank's gradients";
  let description = [{
    The sum of grad_norm in float64, in the same blocks and order, before the
    square root.
  }];
  let arguments = (ins
    Arg<Variadic<Kernel_FloatBuffer>, "gradients", [MemRead]>:$grads,
    Out<Kernel_WideBuffer, "sum of squares, f64 [1]">:$partial);
  let assemblyFormat = [{
    `grads` `(` $grads `:` type($grads) `)`
    `outs` `(` $partial `:` type($partial) `)` attr-dict
  }];
}

def Kernel_GradNormCombineOp : Kernel_Op<"grad_norm_combine", 21> {
  let summary = "Statistics of grad_norm from the ranks' sums of squares";
  let description = [{
    norm = sqrt(partials[0] + ... + partials[N - 1]), added in this order in
    float64; `stats` as in grad_norm.
  }];
  let arguments = (ins
    In<Kernel_WideBuffer, "sums of squares by rank, f64 [N]">:$partials,
    In<Kernel_WideBuffer, "as in grad_norm [8]">:$hyper,
    Out<Kernel_WideBuffer, "norm, clip, finite, 0 [4]">:$stats);
  let assemblyFormat = [{
    `ins` `(` $partials `,` $hyper `:` type($partials) `,` type($hyper) `)`
    `outs` `(` $stats `:` type($stats) `)` attr-dict
  }];
}

def Kernel_EmbeddingShardOp : Kernel_Op<"embedding_shard", 22> {
  let summary = "out[t, :] = this rank's part of table[ids[t], :], zeros elsewhere";
  let description = [{
    The table [rows, H] lies in a flat sequence, of which this rank holds S
    elements: element (row, h) is shard[begin + row H + h], and 0 where that is
    not in [0, S) or `ids[t]` not in [0, rows). The sum over all ranks is the
    row, bit for bit (but for the sign of a zero).

    In a plan `begin` is the one of rank 0; when the plan is loaded, rank r
    subtracts r S from it.
  }];
  let arguments = (ins
    In<Kernel_FloatBuffer, "this rank's part of the sequence [S]">:$shard,
    In<Kernel_IndexBuffer, "row of each token [T]">:$ids,
    Out<Kernel_WideBuffer, "parts of the rows [T, H]">:$out,
    I64Attr:$begin, I64Attr:$rows);
  let assemblyFormat = [{
    `ins` `(` $shard `,` $ids `:` type($shard) `,` type($ids) `)`
    `outs` `(` $out `:` type($out) `)` attr-dict
  }];
}

def Kernel_EmbeddingGradShardOp : Kernel_Op<"embedding_grad_shard", 23> {
  let summary = "This rank's part of embedding_grad";
  let description = [{
    Adds dout[t, :] to row ids[t] of the table's gradient, where this rank holds
    it: the table lies in the shard as in embedding_shard. Rows with the same id
    are summed in token order, in float32 (float64 for f64), and rounded to the
    shard's type once. Without `accumulate` the whole shard is written first
    (zeros for ids that do not occur).
  }];
  let arguments = (ins
    In<Kernel_FloatBuffer, "gradient of the rows [T, H]">:$dout,
    In<Kernel_IndexBuffer, "row of each token [T]">:$ids,
    Out<Kernel_FloatBuffer, "this rank's part of the gradient [S]">:$shard,
    I64Attr:$begin, I64Attr:$rows,
    DefaultValuedAttr<BoolAttr, "false">:$accumulate);
  let assemblyFormat = [{
    `ins` `(` $dout `,` $ids `:` type($dout) `,` type($ids) `)`
    `outs` `(` $shard `:` type($shard) `)` attr-dict
  }];
}

#endif // QWEN_KERNEL_OPS
