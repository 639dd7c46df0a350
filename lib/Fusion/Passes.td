//===- Passes.td - Passes of the fusion stage ---------------*- tablegen -*-===//
//
// In the order in which they run. After the stage every elementwise or row-wise
// op is in exactly one qwen.group.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_FUSION_PASSES
#define QWEN_FUSION_PASSES

include "mlir/Pass/PassBase.td"

def FuseLossPass : Pass<"qwen-fuse-loss", "::mlir::func::FuncOp"> {
  let summary = "Let the loss gradient's sweep over the vocabulary give the loss";
  let description = [{
    `qwen.linear_cross_entropy_grad` computes the logits anyway, so it returns
    the loss too. Where a function holds both ops on the same operands, and the
    cotangent does not depend on the loss (it is the loss scale, known before
    the step), the forward op goes: three matrix products instead of four.

    Input:
    ```mlir
    %nll = qwen.linear_cross_entropy %x, %w, %labels : …
    %nll2, %dx, %dw = qwen.linear_cross_entropy_grad %x, %w, %labels, %dnll : …
    return %nll : tensor<8xf32>
    ```
    Output:
    ```mlir
    %nll2, %dx, %dw = qwen.linear_cross_entropy_grad %x, %w, %labels, %dnll : …
    return %nll2 : tensor<8xf32>
    ```
    A forward op whose loss is read before the gradient op stays.
  }];
  let dependentDialects = ["::qwen::QwenDialect"];
  let statistics = [
    Statistic<"numFused", "losses-fused", "Forward loss ops removed">];
}

def FuseResidualsPass : Pass<"qwen-fuse-residuals", "::mlir::func::FuncOp"> {
  let summary = "Add a residual in the epilogue of the projection before it";
  let description = [{
    A projection whose rounded result is only added to a residual of the same
    type becomes one `qwen.linear_add`. The library reads the residual where it
    would have written the product (beta = 1), so the sum costs one read instead
    of two reads and two writes, and one rounding instead of two. For targets
    whose library has such an epilogue; the result differs from the unfused one
    by the rounding that is gone.

    Input:
    ```mlir
    %y = qwen.linear %x, %w : tensor<8x4xbf16>, tensor<6x4xbf16> -> tensor<8x6xbf16>
    %a = arith.extf %y : tensor<8x6xbf16> to tensor<8x6xf32>
    %b = arith.extf %r : tensor<8x6xbf16> to tensor<8x6xf32>
    %c = arith.addf %a, %b : tensor<8x6xf32>
    %s = arith.truncf %c : tensor<8x6xf32> to tensor<8x6xbf16>
    ```
    Output:
    ```mlir
    %s = qwen.linear_add %x, %w, %r : tensor<8x4xbf16>, tensor<6x4xbf16>, tensor<8x6xbf16> -> tensor<8x6xbf16>
    ```
  }];
  let dependentDialects = ["::qwen::QwenDialect"];
  let statistics = [
    Statistic<"numFused", "residuals-fused", "Sums moved into products">];
}

def DecomposePass : Pass<"qwen-decompose", "::mlir::func::FuncOp"> {
  let summary = "Spell rms_norm out in elementwise ops and a row sum";
  let description = [{
    The norm stays one op until differentiation because its derivative is worth
    writing by hand; for fusion its parts must be visible. Arithmetic is in f32
    (f64 for f64), rounded once to the result's type.

    Input:
    ```mlir
    %y = qwen.rms_norm %x, %w {eps = 1.0e-6, offset = 1.0} : tensor<8x64xbf16>, tensor<64xbf16> -> tensor<8x64xbf16>
    ```
    Output:
    ```mlir
    %x1 = arith.extf %x : tensor<8x64xbf16> to tensor<8x64xf32>
    %x2 = arith.mulf %x1, %x1 : tensor<8x64xf32>
    %s = qwen.reduce_sum %x2 dims = [1] : tensor<8x64xf32> -> tensor<8xf32>
    %m = arith.divf %s, %columns : tensor<8xf32>
    %e = arith.addf %m, %eps : tensor<8xf32>
    %r = math.rsqrt %e : tensor<8xf32>
    %rb = qwen.broadcast %r dims = [0] : tensor<8xf32> -> tensor<8x64xf32>
    %n = arith.mulf %x1, %rb : tensor<8x64xf32>
    %wb = qwen.broadcast %w dims = [1] : tensor<64xbf16> -> tensor<8x64xbf16>
    %w1 = arith.extf %wb : tensor<8x64xbf16> to tensor<8x64xf32>
    %w2 = arith.addf %w1, %offset : tensor<8x64xf32>
    %p = arith.mulf %n, %w2 : tensor<8x64xf32>
    %y = arith.truncf %p : tensor<8x64xf32> to tensor<8x64xbf16>
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def NormalizeShapesPass : Pass<"qwen-normalize-shapes", "::mlir::func::FuncOp"> {
  let summary = "Move views and broadcasts out of elementwise chains";
  let description = [{
    A chain can become one kernel only where all of it has one iteration space,
    and a view must not sit in its middle. Towards that:

    - a reshape to more dimensions moves up, before elementwise ops; one to fewer
      dimensions moves down, behind them. The chain then runs over the space with
      more dimensions, in which a slice of a wider buffer is still a strided view;
    - split moves up and concat moves down across ops with one operand;
    - a broadcast of a column vector or a scalar moves up, so that bodies of
      groups hold no arithmetic on column vectors;
    - a factor on a column sum moves into the sum, so that a weight gradient is
      a column sum and nothing after it, which can be added to its storage;
    - reshapes of reshapes fold.

    Input:
    ```mlir
    %o1 = qwen.reshape %o : tensor<8x2x4xf32> -> tensor<8x8xf32>
    %y = arith.mulf %o1, %gate : tensor<8x8xf32>
    ```
    Output:
    ```mlir
    %gate1 = qwen.reshape %gate : tensor<8x8xf32> -> tensor<8x2x4xf32>
    %y1 = arith.mulf %o, %gate1 : tensor<8x2x4xf32>
    %y = qwen.reshape %y1 : tensor<8x2x4xf32> -> tensor<8x8xf32>
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::qwen::QwenDialect"];
}

def FuseGroupsPass : Pass<"qwen-fuse-groups", "::mlir::func::FuncOp"> {
  let summary = "Outline elementwise and row-wise chains as groups";
  let description = [{
    Every fusable op (elementwise arith and math, sigmoid, softplus, broadcast,
    rope, row and column sums) ends up in a `qwen.group`, the unit of code
    generation. An op joins the group of a reader with the same iteration
    space; then groups that read the same tensor join, or that are so small that
    the launch is their cost and that serve the same kernel. Two groups never
    join where a third op depends on one and feeds the other: that would be a
    cycle. A column sum is complete only when its group has ended, so its
    readers are never in that group.

    Constants, widenings, broadcasts and arithmetic on broadcasts alone are
    copied into each group that uses them: what crosses a group's border is the
    narrow, rounded value.

    Ops on row values (one element a row: a mean, its rsqrt) belong to the space
    of the rows that they were summed from or spread to. Ops on vectors run over
    [1, N], through reshapes. Arithmetic on scalars has no group.

    `fuse = false` gives each op its own group; the results are the same to the
    last bit, because code generation treats each op alike in every group.
    `remarks = true` emits a remark a group: what it holds, bytes moved with each
    op alone and fused, and for every result why the chain ended there.

    Input:
    ```mlir
    %s = qwen.sigmoid %x : tensor<8x64xf32>
    %y = arith.mulf %x, %s : tensor<8x64xf32>
    %z = qwen.linear %y, %w : tensor<8x64xf32>, tensor<16x64xf32> -> tensor<8x16xf32>
    ```
    Output:
    ```mlir
    %y = qwen.group(%a = %x : tensor<8x64xf32>) domain = [8, 64] attributes {label = "silu"} -> tensor<8x64xf32> {
      %s = qwen.sigmoid %a : tensor<8x64xf32>
      %p = arith.mulf %a, %s : tensor<8x64xf32>
      qwen.yield %p : tensor<8x64xf32>
    }
    %z = qwen.linear %y, %w : tensor<8x64xf32>, tensor<16x64xf32> -> tensor<8x16xf32>
    ```
  }];
  let options = [
    Option<"fuse", "fuse", "bool", "true",
           "Join ops into groups; false: one op a group">,
    Option<"remarks", "remarks", "bool", "false",
           "Emit a remark for each group">];
  let statistics = [
    Statistic<"numGroups", "groups", "Groups made">,
    Statistic<"numOps", "ops", "Ops in them">,
    Statistic<"bytesBefore", "bytes-before", "Bytes moved, each op alone">,
    Statistic<"bytesAfter", "bytes-after", "Bytes moved by the groups">];
  let dependentDialects = ["::qwen::QwenDialect"];
}

def VerifyFusionPass : Pass<"verify-fusion", "::mlir::ModuleOp"> {
  let summary = "Check what holds after the fusion stage";
  let description = [{
    Every op of a function is a group, a matrix product, a hand-written region,
    a view, a parameter or optimizer op, a call or a return; a constant stands
    outside a group only to be written as it is. No norm is left whole, and no
    op in a group is itself outside what groups may hold.

    An op that fusion has forgotten:
    ```mlir
    func.func @f(%a: tensor<8x64xf32>, %b: tensor<8x64xf32>) -> tensor<8x64xf32> {
      // error: 'arith.addf' op in @f is outside every group after fusion
      %y = arith.addf %a, %b : tensor<8x64xf32>
      return %y : tensor<8x64xf32>
    }
    ```
  }];
}

#endif // QWEN_FUSION_PASSES
