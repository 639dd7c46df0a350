//===- EngineChecks.h - A whole model against itself -----------*- C++ -*-===//
//
// What must be the same bits: the losses of a document alone and among others,
// a replayed graph and plain launches, a step and the same step again.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_SELFCHECK_ENGINECHECKS_H
#define QWEN_RUNTIME_SELFCHECK_ENGINECHECKS_H

#include "runtime/selfcheck/CheckReport.h"
#include "runtime/trainer/Engine.h"

#include <functional>

namespace qwen {

/// Losses of documents in the evaluation: each alone, then all in one pack,
/// then beside others with other tokens.
StatusOr<std::vector<CheckRow>> checkIsolation(Engine &engine, uint32_t seed);

/// Runs a micro-step, the first one or a later one, by single launches; returns
/// its losses.
using PlainMicroStep = std::function<StatusOr<Buffer>(EngineRun::Program)>;

/// Losses and gradients of two micro-steps as training starts them and by
/// single launches, for packs of one, of many and of a few documents.
StatusOr<std::vector<CheckRow>>
checkReplay(Engine &engine, const PlainMicroStep &plain, uint32_t seed);

/// A whole step twice from the same state: losses, norm, parameters, optimizer
/// state. Leaves the state as it found it; moments must be zero before.
StatusOr<std::vector<CheckRow>> checkRepeatability(Engine &engine,
                                                   uint32_t seed);

} // namespace qwen

#endif // QWEN_RUNTIME_SELFCHECK_ENGINECHECKS_H
