//===- CudaExecutor.h - Runs a plan on a GPU -------------------*- C++ -*-===//
//
// Each program is captured into a CUDA graph when the plan is loaded and
// replayed as a whole. What changes from run to run (tokens, document
// boundaries, learning rate …) lies in input buffers on the device, so one
// graph serves every pack.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_EXECUTOR_CUDAEXECUTOR_H
#define QWEN_RUNTIME_EXECUTOR_CUDAEXECUTOR_H

#include "runtime/executor/Executor.h"

namespace qwen {

/// What Executor::create does for a plan whose target is a GPU.
StatusOr<std::unique_ptr<Executor>>
createCudaExecutor(const Plan &plan, const ExecutorOptions &options);

} // namespace qwen

#endif // QWEN_RUNTIME_EXECUTOR_CUDAEXECUTOR_H
