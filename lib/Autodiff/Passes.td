//===- Passes.td - Stage autodiff ---------------------------*- tablegen -*-===//

#ifndef QWEN_AUTODIFF_PASSES
#define QWEN_AUTODIFF_PASSES

include "mlir/Pass/PassBase.td"

def MergeProjectionsPass : Pass<"qwen-merge-projections", "::mlir::ModuleOp"> {
  let summary = "Run linear projections of one input as one GEMM";
  let description = [{
    Several `qwen.linear` of the same `x` in one function become one linear on
    the stacked weights and a `qwen.split`. Callers pass a `qwen.get_parameter`
    of all the names, so the parameters lie one after the other in memory.

    It runs before differentiation: then the input gradient and the weight
    gradient of the projections are single GEMMs too, without another rewrite.

    A weight takes part only if it is a `qwen.get_parameter` (or an argument
    that is one at every call), is used by that linear alone, and its parameters
    are read nowhere else in another way: a parameter has one place in memory.

    Input:
    ```mlir
    func.func private @mlp(%x: tensor<8x4xf32>, %gate: tensor<6x4xf32>, %up: tensor<6x4xf32>) -> tensor<8x6xf32> {
      %g = qwen.linear %x, %gate : tensor<8x4xf32>, tensor<6x4xf32> -> tensor<8x6xf32>
      %u = qwen.linear %x, %up : tensor<8x4xf32>, tensor<6x4xf32> -> tensor<8x6xf32>
      ...
    // in a caller:
    %gate = qwen.get_parameter [@gate] : tensor<6x4xf32>
    %up = qwen.get_parameter [@up] : tensor<6x4xf32>
    call @mlp(%x, %gate, %up)
    ```
    Output:
    ```mlir
    func.func private @mlp(%x: tensor<8x4xf32>, %w: tensor<12x4xf32>) -> tensor<8x6xf32> {
      %y = qwen.linear %x, %w : tensor<8x4xf32>, tensor<12x4xf32> -> tensor<8x12xf32>
      %g, %u = qwen.split %y : tensor<8x12xf32> -> tensor<8x6xf32>, tensor<8x6xf32>
      ...
    %w = qwen.get_parameter [@gate, @up] : tensor<12x4xf32>
    call @mlp(%x, %w)
    ```
  }];
  let dependentDialects = ["::mlir::func::FuncDialect"];
  let statistics = [Statistic<"merged", "merged", "Linears that joined another">];
}

def AutodiffPass : Pass<"qwen-autodiff", "::mlir::ModuleOp"> {
  let summary = "Reverse-mode derivative of @forward: programs micro_step, eval";
  let description = [{
    `@forward` becomes `@eval` (as it was) and `@micro_step`, which takes
    `loss_scale` as one more input, and for every parameter that influences the
    result `nll` adds d(loss_scale * sum(nll)) / d(parameter) to its gradient by
    `qwen.accumulate_grad`, right where that cotangent is made. `@logits`, where
    it exists, becomes a program too. Programs carry the attribute
    `qwen.program`.

    Rules come from DifferentiableOpInterface. Each called function `@f` is
    differentiated once for a set of results with cotangents and arguments that
    depend on parameters, into `@f_forward` (results and residuals) and
    `@f_backward` (cotangents of those arguments), however many calls there are;
    `@f` stays for `@eval`.

    Cotangents. That of an activation has the activation's element type;
    several are added in float32 and rounded once. That of a weight (a
    parameter, or an argument that is one in every call) is float32 throughout.
    f64 stays f64.

    Residuals are a minimum cut, in bytes, of the elementwise graph between what
    the forward writes to memory and what the backward reads: kernel results are
    never computed twice, elementwise values that live only inside a fused chain
    never reach memory, views and conversions are made again from their source.
    What is an argument or a result of `@f` costs nothing: the caller has it and
    passes it to `@f_backward`.

    Input:
    ```mlir
    func.func private @f(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> tensor<8x4xf32> {
      %y = qwen.linear %x, %w : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
      %s = qwen.sigmoid %y : tensor<8x4xf32>
      return %s : tensor<8x4xf32>
    }
    ```
    Output (`%s` of the forward is the only residual, and the caller has it):
    ```mlir
    func.func private @f_forward(%x, %w) -> tensor<8x4xf32>
    func.func private @f_backward(%s, %x, %w, %ds) -> (tensor<8x4xf32>, tensor<4x4xf32>) {
      %one = arith.constant dense<1.0> : tensor<8x4xf32>
      %0 = arith.subf %one, %s : tensor<8x4xf32>
      %1 = arith.mulf %s, %0 : tensor<8x4xf32>
      %dy = arith.mulf %ds, %1 : tensor<8x4xf32>
      %dx = qwen.matmul %dy, %w : ...
      %dw = qwen.matmul %dy, %x {transpose_a} : ...
      return %dx, %dw
    }
    ```
    Errors: an op on the way from a parameter to the loss has no rule (the
    message names op and function), or its rule drops an operand that depends on
    a parameter; recursive calls; several blocks; no result `nll`. A parameter
    that does not influence the loss gets a warning and no gradient.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::func::FuncDialect"];
  let statistics = [
    Statistic<"differentiated", "differentiated", "Functions differentiated">,
    Statistic<"residuals", "residuals", "Values saved by their forwards">];
}

def FirstMicroStepPass : Pass<"qwen-first-micro-step", "::mlir::ModuleOp"> {
  let summary = "Program first_micro_step: gradients written, not added to";
  let description = [{
    Copies `@micro_step` as `@first_micro_step`, in which the first
    `qwen.accumulate_grad` of each parameter, in the order that the program
    runs, has `overwrite`. What a parameter gets after that, such as a tied
    embedding, is still added. A step runs `@first_micro_step` for its first
    micro-batch and `@micro_step` for the others.

    Why: adding to gradients of zero reads 4 bytes a parameter that say nothing,
    and somebody has to write the zeros, 4 bytes more. With gradients that are
    overwritten, AdamW leaves them alone, and no step depends on what the one
    before left in them.

    A called function that accumulates itself is copied for the calls where that
    is the first contribution; `qwen.specializes` names the original.

    Input:
    ```mlir
    func.func @micro_step(...) attributes {qwen.program} {
      ...
      qwen.accumulate_grad [@embed], %0 : tensor<16x4xf32>
      qwen.accumulate_grad [@w], %1 : tensor<4x4xf32>
      qwen.accumulate_grad [@embed], %2 : tensor<16x4xf32>
    ```
    Output, beside `@micro_step` as it was:
    ```mlir
    func.func @first_micro_step(...) attributes {qwen.program} {
      ...
      qwen.accumulate_grad [@embed], %0 {overwrite} : tensor<16x4xf32>
      qwen.accumulate_grad [@w], %1 {overwrite} : tensor<4x4xf32>
      qwen.accumulate_grad [@embed], %2 : tensor<16x4xf32>
    ```
  }];
  let dependentDialects = ["::mlir::func::FuncDialect"];
  let statistics = [
    Statistic<"overwrites", "overwrites", "Gradients that are overwritten">];
}

def OptimizerPass : Pass<"qwen-optimizer", "::mlir::ModuleOp"> {
  let summary = "Program update: clipped AdamW of all trained parameters";
  let description = [{
    Makes `@update` of the inputs `hyper` (learning rate, 1 - betas, eps,
    weight decay, largest norm, bias corrections) and `rng` (seed, step): one
    `qwen.grad_norm` over every parameter that has a gradient, and one
    `qwen.adamw` for each pair of (decays or not, element type).

    A parameter decays as its attribute `decay` says. `no-decay`, where given,
    overrides that: a parameter decays unless one of the regular expressions is
    found in its name. The result is written back to the attribute.

    Moments are `moment-type` (f64 for f64 parameters). bf16 parameters get
    float32 master copies unless `masters=none`; then AdamW rounds them
    stochastically.

    Output:
    ```mlir
    func.func @update(%hyper: tensor<8xf32> {qwen.input = "hyper"}, %rng: tensor<2xi32> {qwen.input = "rng"})
        -> (tensor<4xf32> {qwen.output = "stats"}) attributes {qwen.program} {
      %stats = qwen.grad_norm %hyper of [@a, @norm] : tensor<8xf32> -> tensor<4xf32>
      qwen.adamw %hyper, %stats, %rng of [@a] {decay = true, moment_type = f32, master_type = f32} : ...
      qwen.adamw %hyper, %stats, %rng of [@norm] {decay = false, moment_type = f32, master_type = f32} : ...
      return %stats : tensor<4xf32>
    }
    ```
  }];
  let dependentDialects = ["::mlir::func::FuncDialect"];
  let options = [
    Option<"momentType", "moment-type", "std::string", "\"f32\"",
           "Element type of both moments: f32 or bf16">,
    Option<"masters", "masters", "std::string", "\"f32\"",
           "Master copies of bf16 parameters: f32 or none">,
    ListOption<"noDecay", "no-decay", "std::string",
               "Regular expressions; parameters that match do not decay">];
}

def VerifyAutodiffPass : Pass<"verify-autodiff", "::mlir::ModuleOp"> {
  let summary = "Check what holds after stage autodiff";
  let description = [{
    - `@micro_step`, `@first_micro_step`, `@update`, `@eval` exist, each public
      with `qwen.program`, the agreed inputs and outputs by name; beside them
      only `@logits` may be a program; `@forward` is gone.
    - Gradients are accumulated only in what `@micro_step` and
      `@first_micro_step` call, and only of parameters that `@update` steps;
      each of those is in one `qwen.adamw`, in `qwen.grad_norm`, and has a
      gradient.
    - `@first_micro_step` overwrites the gradient of each of them once, before
      anything is added to it; `@micro_step` overwrites none.
    - A parameter is read and accumulated in one stack only: alone, or always
      with the same neighbours.

    ```mlir
    // error: parameter '@w' is stepped by @update but has no gradient
    ```
  }];
}

#endif // QWEN_AUTODIFF_PASSES
