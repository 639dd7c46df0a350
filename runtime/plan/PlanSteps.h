//===- PlanSteps.h - From plan tables to argument structs ------*- C++ -*-===//
//
// Shared by the verifier, the executor and the printer: one step's kernel table
// becomes that kernel's argument struct, and a visitor sees it by its type.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_PLAN_PLANSTEPS_H
#define QWEN_RUNTIME_PLAN_PLANSTEPS_H

#include "qwen/Plan/Kernels.h"
#include "qwen/Plan/plan_generated.h"
#include "qwen/Support/Status.h"

#include <cstring>
#include <string_view>
#include <vector>

namespace qwen {

/// A copy of a vector of numbers. The FlatBuffers verifier does not look at the
/// alignment of 8-byte elements, so they are copied as bytes.
template <typename T>
std::vector<T> toVector(const flatbuffers::Vector<T> &vector) {
  std::vector<T> result(vector.size());
  if (!result.empty())
    std::memcpy(result.data(), vector.Data(), result.size() * sizeof(T));
  return result;
}

#include "qwen/Plan/PlanToArgs.h.inc"

/// The in-memory form of a type of the plan; the numbers must be verified.
inline BufferType toBufferType(const plan::TensorType &type) {
  BufferType result;
  result.dtype = static_cast<DType>(type.dtype());
  result.rank = type.rank();
  for (int i = 0; i < maxRank; ++i) {
    result.shape[i] = type.shape()->Get(i);
    result.strides[i] = type.strides()->Get(i);
  }
  return result;
}

/// Builds the arguments of a step with `resolve(viewId, buffer)` and calls
/// `visit(args)`, which returns a Status. DataLoss where the kernel is unknown.
template <typename Resolve, typename Visit>
Status visitStep(const plan::Step &step, Resolve &&resolve, Visit &&visit) {
  switch (step.kernel_type()) {
#define QWEN_VISIT_STEP(Name)                                                  \
  case plan::Kernel::Name: {                                                   \
    Name##Args args;                                                           \
    QWEN_RETURN_IF_ERROR(fromPlan(*step.kernel_as_##Name(), args, resolve));   \
    return visit(args);                                                        \
  }
    QWEN_KERNELS(QWEN_VISIT_STEP)
#undef QWEN_VISIT_STEP
  default:
    return dataLoss("unknown kernel number {}",
                    static_cast<int>(step.kernel_type()));
  }
}

} // namespace qwen

#endif // QWEN_RUNTIME_PLAN_PLANSTEPS_H
