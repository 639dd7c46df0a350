//===- Passes.td - Stage sharding ---------------------------*- tablegen -*-===//

#ifndef QWEN_SHARDING_PASSES
#define QWEN_SHARDING_PASSES

include "mlir/Pass/PassBase.td"

def ShardingPass : Pass<"qwen-sharding", "::mlir::ModuleOp"> {
  let summary = "Spread parameters, gradients and optimizer state over ranks";
  let description = [{
    Every rank runs the programs on packs of its own and holds an equal part of
    every bucket. A unit is what one layer's calls use, forward and backward;
    of the other parameters, those that are first used between the same two
    calls (the embedding; the final norm and the head). A unit has a bucket for
    each element type, and others for parameters without a gradient.

    A unit is gathered before its first use and stays until its last one in the
    same or a neighbouring stretch of the program, where each call and what
    stands between two calls is a stretch; later uses gather again (option
    `reshard-after-forward`; else a program gathers each unit once). The gather
    is placed before the first use of the unit that is `prefetch` units ahead.

    Gradients of a bucket's parameters are joined, with zeros where no parameter
    is, and scattered as soon as the last one is there. A parameter with several
    contributions (a tied embedding) is scattered as often. Ranks add in float32;
    with `grad-type=bf16` a rank holds its part of the sum rounded.

    A table of which a program looks up rows, alone in its bucket, is not
    gathered for that, and the gradient of those rows not scattered: the ranks
    exchange the rows of all ranks' tokens where these are fewer bytes than the
    table (option `embedding-exchange`: `auto`, or always `rows` or `table`).

    `@update` stays as it is: norm and AdamW of all parameters of a bucket are
    those of its shard.

    Input:
    ```mlir
    qwen.parameter @w : tensor<4x8xf32> {init = "zero"}
    ...
    %w = qwen.get_parameter [@w] : tensor<4x8xf32>
    %y = call @layer_forward(%x, %w)
    ...
    qwen.accumulate_grad [@w], %dw : tensor<4x8xf32>
    ```
    Output (`world-size=2`):
    ```mlir
    qwen.parameter @w : tensor<4x8xf32> {init = "zero"}
    qwen.bucket @w.f32 : tensor<128xf32> {parameters = [@w], offsets = array<i64: 0>}
    ...
    %flat = qwen.all_gather @w.f32 : tensor<128xf32>
    %w = qwen.bucket_part %flat[0] [@w] : tensor<128xf32> -> tensor<4x8xf32>
    %y = call @layer_forward(%x, %w)
    ...
    %0 = qwen.reshape %dw : tensor<4x8xf32> -> tensor<32xf32>
    %1 = arith.constant dense<0.0> : tensor<96xf32>
    %2 = qwen.concat %0, %1 : tensor<32xf32>, tensor<96xf32> -> tensor<128xf32>
    qwen.reduce_scatter @w.f32, %2 : tensor<128xf32>
    ```
    Remarks say for each unit how much is gathered and scattered, and when.
  }];
  let options = [
    Option<"worldSize", "world-size", "int64_t", "2", "Number of ranks">,
    Option<"prefetch", "prefetch", "int64_t", "1",
           "Units that are gathered ahead of their use">,
    Option<"reshardAfterForward", "reshard-after-forward", "bool", "true",
           "Gather a unit again in the backward pass">,
    Option<"gradType", "grad-type", "std::string", "\"f32\"",
           "Element type of the gradients that ranks hold: f32 or bf16">,
    Option<"embeddingExchange", "embedding-exchange", "std::string",
           "\"auto\"",
           "What ranks send of the embedding: rows, table, or auto for what is "
           "less">,
    Option<"remarks", "remarks", "bool", "false",
           "Report gathers and scatters of each unit">];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::func::FuncDialect"];
  let statistics = [
    Statistic<"numGathers", "gathers", "qwen.all_gather made">,
    Statistic<"numScatters", "scatters", "qwen.reduce_scatter made">,
    Statistic<"numExchanges", "exchanges",
              "qwen.sharded_embedding and its gradient made">];
}

def VerifyShardingPass : Pass<"verify-sharding", "::mlir::ModuleOp"> {
  let summary = "Check what holds after stage sharding";
  let description = [{
    With one rank there are no buckets and no collectives. With several, every
    parameter is in one bucket, whose length is a multiple of 64 times the
    ranks; programs read gathered buckets only and scatter gradients only; in
    every program that adds to the gradient of a bucket the first op alone may
    overwrite; nothing but a program has a collective, so that all ranks run the
    same ones in the same order.

    ```mlir
    // error: 'qwen.get_parameter' op reads a whole parameter, but 2 ranks hold it in parts
    ```
  }];
  let options = [
    Option<"worldSize", "world-size", "int64_t", "1", "Number of ranks">];
}

def HoistScattersPass : Pass<"qwen-hoist-scatters", "::mlir::func::FuncOp"> {
  let summary = "Scatter gradients as soon as they are there";
  let description = [{
    Fusion gives the ops of a program a new order, in which a scatter, of which
    nothing is made, may stand far behind its gradients: they would be kept until
    then, and nothing would be left to hide the scatter. Moves each scatter, with
    what joins and pads its operand, behind the op that makes the last of its
    gradients, and behind an earlier scatter of the same bucket.

    Input:
    ```mlir
    %dw = call @head_backward(%y)
    %dx = call @layer_backward(%z)
    qwen.reduce_scatter @head.f32, %dw : tensor<128xf32>
    ```
    Output:
    ```mlir
    %dw = call @head_backward(%y)
    qwen.reduce_scatter @head.f32, %dw : tensor<128xf32>
    %dx = call @layer_backward(%z)
    ```
  }];
  let statistics = [Statistic<"numHoisted", "hoisted", "Scatters moved">];
}

#endif // QWEN_SHARDING_PASSES
