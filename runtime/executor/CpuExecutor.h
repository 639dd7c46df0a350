//===- CpuExecutor.h - Runs a plan on the processor ------------*- C++ -*-===//
//
// The programs of a plan for x86-64, in this process's memory.
//
//===----------------------------------------------------------------------===//

#ifndef QWEN_RUNTIME_EXECUTOR_CPUEXECUTOR_H
#define QWEN_RUNTIME_EXECUTOR_CPUEXECUTOR_H

#include "runtime/executor/Executor.h"

namespace qwen {

/// What Executor::create does for a plan whose target is a processor.
StatusOr<std::unique_ptr<Executor>>
createCpuExecutor(const Plan &plan, const ExecutorOptions &options);

} // namespace qwen

#endif // QWEN_RUNTIME_EXECUTOR_CPUEXECUTOR_H
