//===- Engine.h - What a trainer needs of a model --------------*- C++ -*-===//
//
// The programs and buffers of a training plan behind a small interface, so that
// the trainer's rules can be tested with a model of a few lines.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_TRAINER_ENGINE_H
#define QWEN_RUNTIME_TRAINER_ENGINE_H

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/data/Batch.h"
#include "runtime/plan/Plan.h"

#include <span>

namespace qwen {

/// Inputs and outputs of the programs. T = limits().tokens.
struct EngineBuffers {
  Buffer tokens, labels, positions; ///< i32 [T]
  Buffer cuSeqlens;                 ///< i32 [limits().documents + 1]
  Buffer lossScale;                 ///< f32: 1 / supervised tokens of the step
  Buffer hyper;                     ///< f32 [8], see grad_norm in KernelOps.td
  Buffer rng;                       ///< i32 [2]: seed, step
  Buffer microNll, evalNll;         ///< f32 [T]
  Buffer stats;                     ///< f32 [4]: norm, clip, finite, 0
};

/// What the plan says of a parameter beyond its tensors.
struct ParameterRole {
  bool decay = true;
  ParameterInit init = ParameterInit::Normal;
  double initStd = 0;
  Buffer gradient; ///< null data where the parameter is not trained
};

/// A model with its optimizer.
class Engine {
public:
  virtual ~Engine() = default;

  virtual PackLimits limits() const = 0;
  virtual int64_t vocabSize() const = 0;
  virtual std::span<ParameterView> parameters() = 0;
  /// As many as `parameters()`.
  virtual std::span<const ParameterRole> roles() const = 0;
  virtual const EngineBuffers &buffers() const = 0;
  /// Model FLOPs of training on tokens and pairs of tokens (Batch).
  virtual double trainingFlops(double tokens, double contextPairs) const = 0;

  /// Forward and backward; adds to the gradients, fills `microNll`.
  virtual void microStep() = 0;
  /// Norm, clipping, AdamW; zeroes the gradients, fills `stats`.
  virtual void update() = 0;
  /// Forward; fills `evalNll`.
  virtual void evaluate() = 0;
};

} // namespace qwen

#endif // QWEN_RUNTIME_TRAINER_ENGINE_H
