//===- ConfigTarget.cpp - Hostile config.json -----------------------------===//
//
// What the parser accepts has sizes that the importer can multiply.
//
//===----------------------------------------------------------------------===//

#include "FuzzTarget.h"
#include "models/Config.h"
#include "qwen/Plan/Buffer.h"

#include "llvm/ADT/StringRef.h"

#include <cmath>

using namespace qwen;

static void checkSizes(const ModelConfig &config) {
  for (int64_t size :
       {config.hiddenSize, config.intermediateSize, config.vocabSize,
        config.attentionHeads * config.headDim * 2, config.keyValueHeads,
        config.rotaryWidth, config.convChannels(), config.convWidth})
    if (size < 1 || size > maxDimension)
      fuzz::breakPromise("a size is no dimension", std::to_string(size));
  if (config.layers.empty() || config.rotaryWidth > config.headDim)
    fuzz::breakPromise("no layers, or more rotated than there is", "");
  if (!(config.ropeTheta > 0) || !std::isfinite(config.ropeTheta) ||
      !(config.rmsNormEps > 0) || !std::isfinite(config.rmsNormEps))
    fuzz::breakPromise("a number is not positive and finite", "");
}

fuzz::Outcome fuzz::run(std::span<const uint8_t> input) {
  StatusOr<ModelConfig> config = parseConfig(llvm::StringRef(
      reinterpret_cast<const char *>(input.data()), input.size()));
  if (!config.ok()) {
    expectOneLine(config.status().message());
    return Outcome::Refused;
  }
  checkSizes(*config);
  return Outcome::Accepted;
}
