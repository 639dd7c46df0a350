//===- ModelFacts.h - What reports say about a model -----------*- C++ -*-===//

#ifndef QWEN_MODELS_MODELFACTS_H
#define QWEN_MODELS_MODELFACTS_H

#include "models/Import.h"

namespace qwen {

/// Sets the module attributes `qwen.tokens`, `qwen.max_documents` and
/// `qwen.model`. The latter's entry `flops` has the terms of the model FLOPs of
/// a trained token, forward and backward, each as [FLOPs of a token, FLOPs of a
/// token and a token before it in its document]:
///   linear      [6 N, 0], N = elements of all matrices that tokens are
///               multiplied with, the vocabulary projection included, the
///               embedding lookup not;
///   attention   [0, 12 heads head_dim layers], full-attention layers only;
///   gated_delta [18 value_heads key_dim value_dim layers, 0].
void setModelFacts(mlir::ModuleOp module, const ModelConfig &config,
                   mlir::Type element, const ImportOptions &options);

} // namespace qwen

#endif // QWEN_MODELS_MODELFACTS_H
