//===- Layers.h - Layers of the Qwen hybrid models -------------*- C++ -*-===//
//
// One function a layer kind, shared by all layers of that kind: inputs first,
// then the weights in the order of `layerWeights`.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_MODELS_LAYERS_H
#define QWEN_MODELS_LAYERS_H

#include "models/Config.h"
#include "models/GraphBuilder.h"
#include "qwen/Plan/ParameterInit.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace qwen {

/// A weight of a layer. The name is that of the checkpoint after the layer's
/// prefix, such as "mlp.gate_proj.weight".
struct Weight {
  std::string name;
  llvm::SmallVector<int64_t> shape;
  ParameterInit init;
  bool decay; ///< whether weight decay applies by default
  bool wide;  ///< f32 in every model (A_log, dt_bias)
};

std::vector<Weight> layerWeights(const ModelConfig &config, LayerKind kind);

/// "linear_attn.in_proj_qkv.weight" -> "in_proj_qkv.weight": the module that
/// holds a weight goes without saying inside one layer.
llvm::StringRef weightArgumentName(llvm::StringRef name);

/// "gdn_layer" or "attention_layer".
llvm::StringRef layerFunctionName(LayerKind kind);

/// Builds the function of a layer kind at the builder's insertion point. Its
/// arguments: x, for attention the rotary angles, cu_seqlens, the weights.
mlir::func::FuncOp buildLayer(GraphBuilder &graph, const ModelConfig &config,
                              LayerKind kind, int64_t tokens,
                              int64_t boundaries);

} // namespace qwen

#endif // QWEN_MODELS_LAYERS_H
