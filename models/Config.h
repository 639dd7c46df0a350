//===- Config.h - A model's shape, from its config.json --------*- C++ -*-===//
//
// What the importer needs of a Hugging Face config of the dense qwen3_5 family,
// checked: an unknown architecture, a missing or contradictory field, or
// something that this graph does not compute is an error that names the field,
// what was found and what is supported.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_MODELS_CONFIG_H
#define QWEN_MODELS_CONFIG_H

#include "qwen/Support/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace llvm {
class StringRef;
} // namespace llvm

namespace qwen {

enum class LayerKind { GatedDelta, Attention };

struct ModelConfig {
  /// "qwen3_5" (multimodal form with a text_config) or "qwen3_5_text".
  std::string modelType;
  /// As written, such as "bfloat16"; empty where the config names none.
  std::string dtype;

  int64_t hiddenSize = 0;
  int64_t intermediateSize = 0;
  int64_t vocabSize = 0;
  double rmsNormEps = 0;
  double initializerRange = 0;
  bool tiedEmbeddings = false;
  std::vector<LayerKind> layers;

  int64_t attentionHeads = 0;
  int64_t keyValueHeads = 0;
  int64_t headDim = 0;
  int64_t rotaryWidth = 0; ///< rotated elements of a head, even
  double ropeTheta = 0;

  int64_t deltaKeyHeads = 0;
  int64_t deltaValueHeads = 0;
  int64_t deltaKeyDim = 0;
  int64_t deltaValueDim = 0;
  int64_t convWidth = 0;

  bool isMultimodal() const { return modelType == "qwen3_5"; }
  /// Rows of in_proj_qkv, which are the channels of the convolution.
  int64_t convChannels() const {
    return 2 * deltaKeyHeads * deltaKeyDim + deltaValueHeads * deltaValueDim;
  }
  int64_t countLayers(LayerKind kind) const;
};

/// Parses and checks the text of a config.json.
StatusOr<ModelConfig> parseConfig(llvm::StringRef text);

/// Fields of a config.json that nothing here reads and that are not known to
/// leave the computation as it is, sorted.
std::vector<std::string> unknownFields(llvm::StringRef text);

} // namespace qwen

#endif // QWEN_MODELS_CONFIG_H
