//===- PlanVerifier.h - Meaning of a plan ----------------------*- C++ -*-===//
//
// The FlatBuffers verifier proves that offsets stay inside the file; this one
// proves that the numbers make sense: every id names something, every view lies
// in its buffer, no two live buffers share a byte, every kernel gets shapes
// that it takes, nothing is read before it is written, waits order what streams
// share. After that a run needs no check.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_PLAN_PLANVERIFIER_H
#define QWEN_RUNTIME_PLAN_PLANVERIFIER_H

#include "qwen/Plan/plan_generated.h"
#include "qwen/Support/Status.h"

namespace qwen {

/// Largest size, count or dimension that a plan may hold: more than any
/// machine has, and small enough that sums of byte counts cannot overflow.
inline constexpr int64_t planLimit = int64_t(1) << 44;

/// Entries of a list, which a plan may lack.
template <typename T> size_t count(const flatbuffers::Vector<T> *list) {
  return list ? list->size() : 0;
}

/// Everything below, in order. FailedPrecondition for another version, target
/// or number of ranks; DataLoss with an index for anything contradictory.
Status verifyPlan(const plan::Plan &plan);

/// Versions, target, world size, counts.
Status verifyPlanHeader(const plan::Plan &plan);
/// Arenas, buffers, types, views; no two live buffers overlap.
Status verifyPlanMemory(const plan::Plan &plan);
/// The buckets of a plan for several ranks and the places of parameters in
/// them.
Status verifyPlanBuckets(const plan::Plan &plan);
/// A contiguous view into a buffer of class `holds`.
Status checkView(const plan::Plan &plan, uint32_t view,
                 plan::BufferClass holds);
/// Parameter table and the inputs and outputs of programs.
Status verifyPlanTables(const plan::Plan &plan);
/// Every step of every program; needs the three above to hold.
Status verifyPlanSteps(const plan::Plan &plan);
/// Streams and waits; needs the four above to hold.
Status verifyPlanStreams(const plan::Plan &plan);

} // namespace qwen

#endif // QWEN_RUNTIME_PLAN_PLANVERIFIER_H
