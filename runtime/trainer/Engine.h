//===- Engine.h - What a trainer needs of a model --------------*- C++ -*-===//
//
// The programs and buffers of a training plan behind a small interface, so that
// the trainer's rules can be tested with a model of a few lines.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_TRAINER_ENGINE_H
#define QWEN_RUNTIME_TRAINER_ENGINE_H

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/collectives/Communicator.h"
#include "runtime/data/Batch.h"
#include "runtime/plan/Plan.h"

#include <span>
#include <string>

namespace qwen {

/// Inputs of the programs, in this process's memory. T = limits().tokens.
struct EngineInputs {
  Buffer tokens, labels, positions; ///< i32 [T]
  Buffer cuSeqlens;                 ///< i32 [limits().documents + 1]
  Buffer lossScale;                 ///< f32: 1 / supervised tokens of the step
  Buffer hyper;                     ///< f32 [8], see grad_norm in KernelOps.td
  Buffer rng;                       ///< i32 [2]: seed, step
};

/// A program that was started. Runs are numbered in the order they started.
struct EngineRun {
  enum class Program {
    /// Forward and backward; overwrites the gradients. Output: the loss of each
    /// token, f32 [T], 0 where there is no label. A loss that is not finite
    /// makes gradients that are not finite.
    FirstMicroStep,
    /// The same, but adds to the gradients.
    MicroStep,
    /// Norm, clipping, AdamW. Where the norm is not finite nothing is written.
    /// Output f32 [4]: norm, clip, finite, 0.
    Update,
    /// Forward. Output as of MicroStep.
    Evaluation,
  };
  Program program = Program::FirstMicroStep;
  int64_t number = -1;
};

/// The launch that was the first one to write something NaN or infinite.
struct NonFiniteFinding {
  int rank = -1;    ///< on which it did; -1: none did
  std::string text; ///< launch, place in the model, output, element
};

/// What the plan says of a parameter beyond its tensors.
struct ParameterRole {
  bool decay = true;
  ParameterInit init = ParameterInit::Normal;
  double initStd = 0;
  /// In the engine's memory; null data where the parameter is not trained.
  Buffer gradient;
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
  virtual const EngineInputs &inputs() const = 0;
  /// Where parameters, their state and gradients lie.
  virtual DeviceMemory &memory() = 0;
  /// The ranks that train together. All of them start the same programs.
  virtual Communicator &ranks() { return selfCommunicator(); }
  /// Model FLOPs of training on tokens and pairs of tokens (Batch).
  virtual double trainingFlops(double tokens, double contextPairs) const = 0;
  /// FLOPs that the launches of a step do: what is recomputed and the places
  /// of padding count, attention by its pairs of tokens.
  virtual double launchedFlops(int64_t microBatches,
                               double contextPairs) const = 0;

  /// Takes the inputs as they stand and starts a program behind all that were
  /// started before. After an error nothing more can be run.
  virtual StatusOr<EngineRun> start(EngineRun::Program program) = 0;
  /// Waits for a run and all before it. Its output, in this process's memory,
  /// stays until `keptRuns()` further starts.
  virtual StatusOr<Buffer> finish(EngineRun run) = 0;
  virtual int64_t keptRuns() const = 0;
  /// Runs a program that changes no parameter once more, launch by launch, and
  /// finds the first one that goes wrong. Nothing may be under way. On all
  /// ranks, with one answer.
  virtual StatusOr<NonFiniteFinding>
  findNonFinite(EngineRun::Program program) = 0;
  /// True where `start` returns long before the run ends, so that it pays to
  /// start the next one first and to read results later.
  virtual bool runsAhead() const = 0;
};

} // namespace qwen

#endif // QWEN_RUNTIME_TRAINER_ENGINE_H
