//===- NoCudaKernelRunner.cpp - A build without CUDA ----------------------===//

#include "runtime/selfcheck/KernelRunner.h"

using namespace qwen;

StatusOr<std::unique_ptr<KernelRunner>> qwen::createCudaKernelRunner() {
  return makeError(StatusCode::FailedPrecondition,
                   "this qwenrun was built without CUDA");
}
