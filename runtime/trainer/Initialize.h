//===- Initialize.h - Random initial weights -------------------*- C++ -*-===//
//
// Initialisation as in transformers: linear, convolution and embedding weights
// N(0, initializer_range), (1 + w) norms 0, gated norms and dt_bias 1, A_log
// the logarithm of U(0.01, 16). Each element is a function of the seed, the
// parameter's name and the element's index.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_TRAINER_INITIALIZE_H
#define QWEN_RUNTIME_TRAINER_INITIALIZE_H

#include "runtime/trainer/Engine.h"

namespace qwen {

/// Fills every parameter and its master.
Status initializeParameters(Engine &engine, uint32_t seed);

} // namespace qwen

#endif // QWEN_RUNTIME_TRAINER_INITIALIZE_H
