//===- ModelFacts.cpp - What reports say about a model --------------------===//

#include "models/ModelFacts.h"
#include "models/Layers.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace qwen;

/// Elements of all matrices that tokens are multiplied with.
static double matrixElements(const ModelConfig &config) {
  double elements = double(config.vocabSize) * config.hiddenSize;
  for (LayerKind kind : {LayerKind::GatedDelta, LayerKind::Attention}) {
    double layer = 0;
    for (const Weight &weight : layerWeights(config, kind))
      if (weight.shape.size() == 2)
        layer += double(weight.shape[0]) * weight.shape[1];
    elements += layer * config.countLayers(kind);
  }
  return elements;
}

/// A multiply-add counts two; the backward costs twice the forward.
static DictionaryAttr flopsTerms(OpBuilder &builder,
                                 const ModelConfig &config) {
  auto term = [&](StringRef name, double perToken, double perPair) {
    return builder.getNamedAttr(name,
                                builder.getF64ArrayAttr({perToken, perPair}));
  };
  double attention = 12.0 * config.attentionHeads * config.headDim *
                     config.countLayers(LayerKind::Attention);
  double gatedDelta = 18.0 * config.deltaValueHeads * config.deltaKeyDim *
                      config.deltaValueDim *
                      config.countLayers(LayerKind::GatedDelta);
  return builder.getDictionaryAttr(
      {term("attention", 0, attention), term("gated_delta", gatedDelta, 0),
       term("linear", 6 * matrixElements(config), 0)});
}

void qwen::setModelFacts(ModuleOp module, const ModelConfig &config,
                         Type element, const ImportOptions &options) {
  OpBuilder builder(module.getContext());
  SmallVector<NamedAttribute> facts;
  auto text = [&](StringRef name, StringRef value) {
    facts.push_back(builder.getNamedAttr(name, builder.getStringAttr(value)));
  };
  auto number = [&](StringRef name, int64_t value) {
    facts.push_back(
        builder.getNamedAttr(name, builder.getI64IntegerAttr(value)));
  };
  std::string dtype;
  llvm::raw_string_ostream(dtype) << element;
  text("name", options.modelName);
  text("model_type", config.modelType);
  text("dtype", dtype);
  number("hidden_size", config.hiddenSize);
  number("intermediate_size", config.intermediateSize);
  number("vocab_size", config.vocabSize);
  number("num_hidden_layers", config.layers.size());
  number("attention_layers", config.countLayers(LayerKind::Attention));
  number("gated_delta_layers", config.countLayers(LayerKind::GatedDelta));
  facts.push_back(builder.getNamedAttr(
      "tie_word_embeddings", builder.getBoolAttr(config.tiedEmbeddings)));
  facts.push_back(builder.getNamedAttr("flops", flopsTerms(builder, config)));
  module->setAttr("qwen.tokens", builder.getI64IntegerAttr(options.tokens));
  module->setAttr("qwen.max_documents",
                  builder.getI64IntegerAttr(options.maxDocuments));
  module->setAttr("qwen.model", builder.getDictionaryAttr(facts));
}
