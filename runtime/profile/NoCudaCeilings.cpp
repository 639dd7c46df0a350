//===- NoCudaCeilings.cpp - A build without CUDA --------------------------===//

#include "runtime/profile/Ceilings.h"

using namespace qwen;

StatusOr<Ceilings> qwen::measureCudaCeilings(DType, int, int) {
  return makeError(
      StatusCode::FailedPrecondition,
      "the plan is for sm_90a; this qwenrun was built without CUDA");
}
