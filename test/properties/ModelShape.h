//===- ModelShape.h - The sizes of a random model --------------*- C++ -*-===//

#ifndef QWEN_TEST_PROPERTIES_MODELSHAPE_H
#define QWEN_TEST_PROPERTIES_MODELSHAPE_H

#include "test/e2e/Packs.h"

#include <string>
#include <vector>

namespace qwen::property {

/// What a config.json says of a model.
struct ModelShape {
  std::vector<bool> isAttention; ///< by layer
  int64_t hidden = 0, intermediate = 0, vocabulary = 0;
  int64_t heads = 0, keyValueHeads = 0, headDim = 0, rotaryWidth = 0;
  int64_t deltaKeyHeads = 0, deltaValueHeads = 0;
  int64_t deltaKeyDim = 0, deltaValueDim = 0;
  int64_t taps = 0; ///< of the convolution
  bool isTied = false;
  bool isMultimodal = false; ///< with a text_config
  double ropeTheta = 1e4;
};

/// Any sizes that CPU kernels take.
ModelShape drawCpuShape(e2e::Generator &generator);
/// Sizes that the CUDA kernels have.
ModelShape drawCudaShape(e2e::Generator &generator);

/// The text of its config.json.
std::string configText(const ModelShape &shape);
/// In one line, for people.
std::string describe(const ModelShape &shape);

} // namespace qwen::property

#endif // QWEN_TEST_PROPERTIES_MODELSHAPE_H
