//===- Passes.td - Stage import -----------------------------*- tablegen -*-===//

#ifndef QWEN_IMPORT_PASSES
#define QWEN_IMPORT_PASSES

include "mlir/Pass/PassBase.td"

def VerifyImportPass : Pass<"verify-import", "::mlir::ModuleOp"> {
  let summary = "Check that a module is a model that can be compiled";
  let description = [{
    What holds after stage import, whether `model.mlir` was generated or edited:
    - the module has `qwen.tokens` and `qwen.max_documents`, both positive;
    - `@forward` takes `tokens`, `labels`, `positions` (i32 [tokens]) and
      `cu_seqlens` (i32 [max_documents + 1]), named by `qwen.input`, and returns
      `nll` (f32 or f64 [tokens]); `@logits`, where it exists, takes `tokens`,
      `positions` and `cu_seqlens` and returns `logits`;
    - every function has one block, called functions are private, and calls do
      not recurse;
    - values are tensors of f32, bf16, f64 or i32; those of i1 stay between
      elementwise ops;
    - there is at least one `qwen.parameter`;
    - where `qwen.model` says vocab_size, the tables for `tokens` and `labels`
      have that many rows;
    - document boundaries of all ops are the input `cu_seqlens`, handed on
      through calls;
    - ops have the attributes of their dialect alone (and prefixed ones, which
      mean nothing here);
    - only `qwen`, `arith`, `math` and `func` ops occur, and no op that belongs
      to a later stage (gradients, optimizer, groups).

    A model that passes:
    ```mlir
    module attributes {qwen.tokens = 8 : i64, qwen.max_documents = 2 : i64} {
      qwen.parameter @w : tensor<16x4xf32> {init = "normal", std = 2.0e-2 : f64}
      func.func @forward(%t: tensor<8xi32> {qwen.input = "tokens"}, %l: tensor<8xi32> {qwen.input = "labels"},
          %p: tensor<8xi32> {qwen.input = "positions"}, %c: tensor<3xi32> {qwen.input = "cu_seqlens"})
          -> (tensor<8xf32> {qwen.output = "nll"}) {
        %w = qwen.get_parameter [@w] : tensor<16x4xf32>
        %x = qwen.embedding %w, %t : tensor<16x4xf32>, tensor<8xi32> -> tensor<8x4xf32>
        %n = qwen.linear_cross_entropy %x, %w, %l : tensor<8x4xf32>, tensor<16x4xf32>, tensor<8xi32> -> tensor<8xf32>
        return %n : tensor<8xf32>
      }
    }
    ```
  }];
}

#endif // QWEN_IMPORT_PASSES
